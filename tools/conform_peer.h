/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is spoken to in lines over its standard input and output. Whatever it does (dies, hangs, floods, stops
 * in the middle of a line) ends in a loss with a reason, within the time for one answer; and so does whoever waits for it, as
 * soon as there is a reason to stop.
 */
#ifndef CPROUTE_TOOLS_CONFORM_PEER_H
#define CPROUTE_TOOLS_CONFORM_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PEER_MAX_LINE = 8 << 20, PEER_SAID = 160 };

/* Bytes that wait: items[taken..filled). */
typedef struct peer_bytes {
    char *items;
    size_t taken, filled, capacity;
} peer_bytes;

typedef struct peer {
    char *const *command;
    double timeout_s;
    pid_t process; /* 0: none */
    int in, out, err;
    peer_bytes to_send, arrived;
    size_t searched;      /* arrived bytes in which there is no end of a line */
    char said[PEER_SAID]; /* the end of what it wrote to standard error */
    size_t said_length;
    bool (*go_on)(
        void *
            context); /* asked at least ten times a second while there is something to wait for; NULL: always */
    void *context;
    double heard;                /* when it last wrote an answer, or was started; as seconds_now */
    bool stopped;                /* it said no, once and for all */
    const char *loss;            /* why there is no line, as a class of failures; static */
    char details[2 * PEER_SAID]; /* and what there is to say about this one */
} peer;

/* Losses that others must know from the rest. */
extern const char PEER_HANGS[], PEER_SAYS_MORE[];

/* It may take so many times longer to begin, and to end, than to answer: libraries are loaded and taken down. */
#define PEER_PATIENCE 6.0

/* Starts the command. False, with errno, if there is no such command, or no process to be had. */
bool peer_start(peer *p);

/* Ends it, whatever it does. */
void peer_stop(peer *p);

/* Queues a line, which must end in a newline. False without memory. */
bool peer_put(peer *p, const char *line, size_t length);

/* The next line, without its end, or NULL with p->loss; then the process is gone. The line is good until the next call. */
char *peer_line(peer *p, double timeout_s, size_t *length);

/* Ends its input and waits for its end. False with p->loss if it does not end well, or says more. */
bool peer_finish(peer *p);

/* Asks whether to go on. */
bool peer_goes_on(peer *p);

/* What was read from it is no answer: it is stopped, with that as the loss. */
void peer_give_up(peer *p, const char *loss, const char *details);

/* Has it written more than it was asked for? */
bool peer_has_more(peer *p);

#endif
