/* Trains a batch in the helper, and waits for its results. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../training/interrupt.h"
#include "answers.h"
#include "channel.h"
#include "helper.h"
#include "parcel.h"

#define LOOK_MS 5      /* interval of checks for a cancel */
#define PATIENCE_S 5.0 /* time until a helper that does not end a cancelled training is killed */

typedef struct exchange {
    tusk_batch *batch;
    helper *helper;
    int stream;
    int64_t born;     /* the cancel count at the start of the training */
    bool begun;       /* the helper has the batch */
    double cancelled; /* time of the request to end, seconds; 0: none */
} exchange;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Passes a cancel on. Kills a helper that ignores it. */
static void look_for_cancel(exchange *e) {
    int64_t now = cancels_so_far();
    if (!e->cancelled && now != e->born) {
        note_send(e->helper->channel, &(note){.kind = NOTE_CANCEL, .cancels = now}, NO_FILES);
        e->cancelled = seconds_now();
    } else if (e->cancelled && seconds_now() - e->cancelled > PATIENCE_S) {
        char how[1];
        helper_end(e->helper, how, sizeof how);
    }
}

static void wait_for_bytes(exchange *e) {
    struct pollfd stream = {.fd = e->stream, .events = POLLIN};
    while (poll(&stream, 1, LOOK_MS) <= 0) /* nothing, or a signal */
        look_for_cancel(e);
}

/* False if the stream ends first. */
static bool receive(exchange *e, void *bytes, size_t size) {
    char *at = bytes;
    while (size > 0) {
        wait_for_bytes(e);
        ssize_t n = recv(e->stream, at, size, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Reads the last result. */
static bool take_end(exchange *e) {
    answer_end end;
    if (!receive(e, &end, sizeof end))
        return false;
    e->batch->answered = end.answered;
    memcpy(e->batch->error, end.error, sizeof end.error);
    memcpy(e->batch->sqlstate, end.sqlstate, sizeof end.sqlstate);
    return true;
}

static bool take_answer(exchange *e, const answer_head *head) {
    char *body = malloc((size_t)head->bytes + 1);
    bool whole = body && receive(e, body, (size_t)head->bytes);
    bool done = whole && answer_emit(e->batch, head, body);
    free(body);
    if (done || (body && !whole))
        return done;
    snprintf(e->batch->error, sizeof e->batch->error, "no memory for the helper's answer");
    return false;
}

/* Reads all results. False if the stream ended before them. */
static bool follow(exchange *e) {
    for (answer_head head;;) {
        if (!receive(e, &head, sizeof head))
            return false;
        e->begun = true;
        if (head.kind == SAY_END)
            return take_end(e);
        if (head.kind != SAY_BEGUN && !take_answer(e, &head))
            return e->batch->error[0];
    }
}

/* Sends the batch over a pair of sockets for its results, and reads these. False, with the
 * batch's error, if the helper ended first. */
static bool exchanged(exchange *e, const parcel_file *file, const int ends[2]) {
    note train = {.kind = NOTE_TRAIN, .cancels = e->born, .bytes = file->bytes};
    bool sent = note_send(e->helper->channel, &train, (int[2]){file->file, ends[1]});
    close(ends[1]);
    e->stream = ends[0];
    bool done = sent && follow(e);
    close(ends[0]);
    if (!done && !e->cancelled)
        helper_end(e->helper, e->batch->error, sizeof e->batch->error);
    return done;
}

/* False if the helper ended before it began, so that another one may try. */
static bool attempt(exchange *e, const parcel_file *file) {
    int ends[2];
    e->helper = helper_take(e->batch->error, sizeof e->batch->error);
    if (!e->helper)
        return true;
    bool paired = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
    if (!paired)
        snprintf(
            e->batch->error, sizeof e->batch->error,
            "the helper process cannot be reached (%s): raise the limit of open files, ulimit -n",
            strerror(errno));
    bool over = !paired || exchanged(e, file, ends) || e->begun || e->cancelled;
    helper_give(e->helper);
    return over;
}

static void train_from(tusk_batch *batch, const parcel_file *file, int64_t born) {
    exchange e = {.batch = batch, .born = born};
    if (cancels_so_far() == born && !attempt(&e, file))
        attempt(&e, file);
}

int helper_train(tusk_batch *batch) {
    parcel_file file;
    int64_t born = tusk_batch_born(batch);
    if (!parcel_write(batch, &file))
        return 0;
    own_watch_sigint(1);
    train_from(batch, &file, born >= 0 ? born : cancels_so_far());
    own_watch_sigint(0);
    parcel_close(batch->memory, &file);
    return 0;
}
