/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small implementation of the layouts, without any library, to hold to `cproute conform -- build/release/tools/adapters/example`:
 * the tokens of a rank, by walking over all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 4200 };

typedef struct request {
    long long cu[MAX_ENTRIES], cp_size, rank;
    int entries;
    char layout[40];
} request;

/* Reads what conform writes, with its fields in this order; no JSON reader is needed for that. */
static int read_request(request *r, const char *line) {
    const char *list = strstr(line, "\"cu_seqlens\":["), *rest = strstr(line, "],\"cp_size\":");
    if (!list || !rest)
        return 0;
    r->entries = 0;
    for (const char *at = list + 14; at < rest && r->entries < MAX_ENTRIES; r->entries++) {
        char *end;
        r->cu[r->entries] = strtoll(at, &end, 10);
        at = end + (*end == ',');
    }
    return sscanf(rest, "],\"cp_size\":%lld,\"rank\":%lld,\"layout\":\"%39[^\"]", &r->cp_size, &r->rank,
                  r->layout) == 3;
}

/* The first rule that is broken, or NULL. */
static const char *refusal(const request *r) {
    const int zigzag = !strcmp(r->layout, "zigzag");
    if (r->cp_size < 1)
        return "bad_cp_size";
    if (r->rank < 0 || r->rank >= r->cp_size)
        return "bad_rank";
    if (!zigzag && strcmp(r->layout, "contiguous") != 0)
        return "bad_layout";
    if (!r->entries)
        return "empty_cu_seqlens";
    if (r->cu[0] != 0)
        return "nonzero_start";
    for (int i = 1; i < r->entries; i++)
        if (r->cu[i] < r->cu[i - 1])
            return "decreasing";
    for (int i = 1; i < r->entries; i++)
        if (zigzag && r->cp_size > 1 && (r->cu[i] - r->cu[i - 1]) % (2 * r->cp_size))
            return "not_divisible_2cp";
    return r->cu[r->entries - 1] % r->cp_size ? "not_divisible_cp" : NULL;
}

static long long owner(const request *r, long long token, long long begin, long long length) {
    if (r->cp_size == 1 || strcmp(r->layout, "zigzag") != 0)
        return token / (r->cu[r->entries - 1] / r->cp_size);
    const long long chunk = (token - begin) / (length / (2 * r->cp_size));
    return chunk < r->cp_size ? chunk : 2 * r->cp_size - 1 - chunk;
}

static void print_tokens(const request *r) {
    const char *separator = "";
    printf("{\"rank\":%lld,\"tokens\":[", r->rank);
    for (int i = 1; i < r->entries; i++) {
        for (long long token = r->cu[i - 1]; token < r->cu[i]; token++) {
            if (owner(r, token, r->cu[i - 1], r->cu[i] - r->cu[i - 1]) != r->rank)
                continue;
            printf("%s%lld", separator, token);
            separator = ",";
        }
    }
    puts("]}");
}

int main(void) {
    static char line[1 << 18];
    static request r;
    puts("{\"hello\":\"example.c\",\"ops\":[\"layout\"],\"layouts\":[\"zigzag\",\"contiguous\"],\"errors\":"
         "\"kind\"}");
    while (!fflush(stdout) && fgets(line, sizeof line, stdin)) {
        const char *kind = read_request(&r, line) ? refusal(&r) : "bad_request";
        if (kind)
            printf("{\"rank\":%lld,\"status\":\"error\",\"error\":\"%s\"}\n", r.rank, kind);
        else
            print_tokens(&r);
    }
    return 0;
}
