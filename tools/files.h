/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders: visiting, reading, and writing what was found. */
#ifndef CPROUTE_TOOLS_FILES_H
#define CPROUTE_TOOLS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A whole file, or standard input for "-". NULL with a message in `mistake`. The caller frees it. */
char *read_whole(const char *path, size_t *length, char *mistake, size_t size);

/* Visits a file, or all files under a folder in the order of their names; hidden ones and README* are
 * left out, and so are pipes, devices and links to folders. What under it cannot be read is visited all the
 * same. False, with errno, if the path itself cannot be read. */
bool files_visit(const char *path, void (*visit)(void *context, const char *path), void *context);

/* Puts a file there in one piece: what was there stays as it is until all is written. A link stays one; what is no file,
 * such as a device, is written to. False with errno. */
typedef bool file_writer(FILE *out, void *context);
bool file_replace(const char *path, file_writer *writer, void *context);

/* Could a file be written there? False with errno. */
bool file_may_be_written(const char *path);

/* Makes a folder and those above it. False with errno. */
bool make_folder(const char *path);

/* Names a file after what it holds. */
uint64_t content_hash(const void *bytes, size_t length);

#endif
