/* SPDX-License-Identifier: Apache-2.0 */
/* Text that comes from anybody, cut wherever a buffer ended, made fit for terminals, JSON and XML. */
#ifndef CPROUTE_TOOLS_PRINTABLE_H
#define CPROUTE_TOOLS_PRINTABLE_H

/* Replaces, in place and byte by byte, by '?' what is no character of UTF-8, and controls and noncharacters, which terminals
 * obey and XML refuses. */
void make_printable(char *text);

#endif
