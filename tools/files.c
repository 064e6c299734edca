/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that never ends must not take all memory. */
static const size_t MAX_FILE_BYTES = (size_t)1 << 30;

char *read_whole(const char *path, size_t *length, char *mistake, size_t size) {
    bool from_input = !strcmp(path, "-");
    FILE *file = from_input ? stdin : fopen(path, "rb");
    size_t filled = 0, capacity = 0;
    char *text = NULL;
    if (!file) {
        snprintf(mistake, size, "cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    do {
        if (filled >= MAX_FILE_BYTES) {
            snprintf(mistake, size, "%s: %zu bytes are the limit", path, MAX_FILE_BYTES);
            goto failed;
        }
        if (filled == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *larger = realloc(text, capacity);
            if (!larger) {
                snprintf(mistake, size, "%s: out of memory", path);
                goto failed;
            }
            text = larger;
        }
        filled += fread(text + filled, 1, capacity - filled, file);
    } while (filled == capacity);
    if (ferror(file)) {
        snprintf(mistake, size, "cannot read %s: %s", path, strerror(errno));
        goto failed;
    }
    if (!from_input)
        fclose(file);
    *length = filled;
    return text;

failed:
    free(text);
    if (!from_input)
        fclose(file);
    return NULL;
}

static bool is_left_out(const char *name) {
    return name[0] == '.' || !strncmp(name, "README", 6);
}

static bool visit_folder(const char *folder, void (*visit)(void *context, const char *path), void *context);

static bool visit_entry(const char *folder, const char *name, void (*visit)(void *context, const char *path),
                        void *context) {
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = malloc(room);
    if (!path)
        return false;
    bool slash = folder[strlen(folder) - 1] == '/';
    snprintf(path, room, "%s%s%s", folder, slash ? "" : "/", name);
    struct stat info, target;
    bool found = !lstat(path, &info), there = !stat(path, &target);
    bool is_folder = there && S_ISDIR(target.st_mode);
    bool circle = is_folder && found && S_ISLNK(info.st_mode);      /* a link may lead in circles */
    bool endless = there && !is_folder && !S_ISREG(target.st_mode); /* a pipe or a device may never end */
    if (!circle && !endless && (!is_folder || !visit_folder(path, visit, context)))
        visit(context, path); /* also what cannot be read, so that the visitor tells which it is */
    free(path);
    return true;
}

static bool visit_folder(const char *folder, void (*visit)(void *context, const char *path), void *context) {
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0)
        return false;
    bool good = true;
    for (int i = 0; i < count; i++) {
        good = good &&
               (is_left_out(entries[i]->d_name) || visit_entry(folder, entries[i]->d_name, visit, context));
        free(entries[i]);
    }
    free(entries);
    return good;
}

bool files_visit(const char *path, void (*visit)(void *context, const char *path), void *context) {
    struct stat info;
    if (stat(path, &info))
        return false;
    if (S_ISDIR(info.st_mode))
        return visit_folder(path, visit, context);
    visit(context, path);
    return true;
}

static bool write_and_close(FILE *out, file_writer *writer, void *context) {
    const bool good = writer(out, context) && !fflush(out) && !ferror(out);
    const int reason = errno;
    const bool closed = !fclose(out);
    errno = good ? errno : reason;
    return good && closed;
}

/* With the rights of what was there, or of any new file. */
static void copy_rights(int file, const char *path) {
    struct stat info;
    const mode_t mask = umask(0);
    umask(mask);
    const mode_t rights = stat(path, &info) ? 0666 & ~mask : info.st_mode & 07777;
    if (fchmod(file, rights)) /* then it is as private as it was made */
        return;
}

static bool replace_file(const char *path, file_writer *writer, void *context) {
    const size_t room = strlen(path) + sizeof ".XXXXXX";
    char *beside = malloc(room);
    if (!beside)
        return false;
    snprintf(beside, room, "%s.XXXXXX", path);
    const int file = mkstemp(beside);
    FILE *out = file < 0 ? NULL : fdopen(file, "wb");
    if (out)
        copy_rights(file, path);
    bool good = out && write_and_close(out, writer, context) && !rename(beside, path);
    if (file >= 0 && !out)
        close(file);
    if (file >= 0 && !good) {
        const int reason = errno;
        unlink(beside);
        errno = reason;
    }
    free(beside);
    return good;
}

bool file_replace(const char *path, file_writer *writer, void *context) {
    struct stat info;
    if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
        FILE *out = fopen(path, "wb");
        return out && write_and_close(out, writer, context);
    }
    char *target = realpath(path, NULL); /* NULL: there is none yet */
    const bool good = replace_file(target ? target : path, writer, context);
    free(target);
    return good;
}

static bool folder_of_may_be_written(const char *path) {
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    const size_t room = (size_t)length + sizeof ".";
    char *folder = malloc(room);
    if (!folder)
        return false;
    snprintf(folder, room, "%.*s.", length, path); /* what is no folder has no "." */
    const bool good = !access(folder, W_OK | X_OK);
    const int reason = errno;
    free(folder);
    errno = reason;
    return good;
}

bool file_may_be_written(const char *path) {
    struct stat info;
    const bool there = !stat(path, &info);
    if (there && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (there && access(path, W_OK))
        return false;
    return (there && !S_ISREG(info.st_mode)) || folder_of_may_be_written(path);
}

bool make_folder(const char *path) {
    char *part = strdup(path);
    if (!part)
        return false;
    bool good = true;
    for (char *slash = strchr(part + 1, '/'); slash && good; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        good = !mkdir(part, 0777) || errno == EEXIST;
        *slash = '/';
    }
    good = good && (!mkdir(part, 0777) || errno == EEXIST);
    free(part);
    return good;
}

/* 64-bit FNV-1a. */
uint64_t content_hash(const void *bytes, size_t length) {
    const unsigned char *byte = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}
