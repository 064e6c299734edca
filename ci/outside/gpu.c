/* SPDX-License-Identifier: Apache-2.0 */
/* Links the GPU part and asks it for what it refuses before it looks for a GPU. */
#include <stdio.h>

#include <cproute/cproute_cuda.h>

int main(void) {
    cpr_cuda_simulation *simulation = NULL;
    cpr_error error;
    char sentence[256];
    (void)cpr_cuda_simulation_create(NULL, 0, 1, NULL, &simulation, &error);
    cpr_error_format(&error, sentence, sizeof sentence);
    puts(sentence);
    return error.status == CPR_BAD_CP_SIZE ? 0 : 1;
}
