/* Messages between the client's process and the helper process. They have a channel, a pair of
 * sockets that keeps messages apart. The helper reports once that it is ready, or why it is
 * not. From then on the client sends notes. A note to train carries two descriptors: the file
 * with the batch (parcel.h), and the stream for the results (answers.h). Either process detects
 * the end of the other by the end of its channel. */
#ifndef TUSK_CHANNEL_H
#define TUSK_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READY "ready"

enum note_kind { NOTE_TRAIN, NOTE_CANCEL };

typedef struct note {
    int32_t kind;
    int64_t cancels; /* of the client's process: when it packed the batch, or now */
    int64_t bytes;   /* of the batch */
} note;

#define NO_FILES ((int[2]){-1, -1})

/* files: two descriptors, or NO_FILES. False if the other process is gone. */
bool note_send(int channel, const note *sent, const int files[2]);
/* Waits for a note. files: out, close-on-exec, -1 for missing ones. False at the end. */
bool note_receive(int channel, note *got, int files[2]);

/* Sends all bytes. False if the other process is gone. */
bool stream_send(int stream, const void *bytes, size_t size);

#endif
