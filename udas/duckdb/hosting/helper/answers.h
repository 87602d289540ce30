/* The trainer's results on their way from the helper process to the client's. Each is a head
 * and a body, which has the arrays of the result's structure in order, each padded to 8 bytes.
 * The first one confirms that the helper has the batch, the last one has its outcome. */
#ifndef TUSK_ANSWERS_H
#define TUSK_ANSWERS_H

#include "../../database.h"

enum answer_kind { SAY_BEGUN, SAY_MODELS, SAY_TEXT, SAY_FREQUENCIES, SAY_PARTITIONING, SAY_END };

typedef struct answer_head {
    int32_t kind;
    int64_t group; /* of the group of the result */
    int64_t bytes; /* of the body */
} answer_head;

/* The body of SAY_END. */
typedef struct answer_end {
    int32_t answered;
    char error[1024];
    char sqlstate[8];
} answer_end;

/* In the helper: destination of the results of a batch. */
typedef struct reply {
    int stream;
    bool failed; /* the client is gone, or memory is out */
} reply;

void reply_begun(reply *r);
void reply_models(reply *r, const tusk_models *models);
void reply_text(reply *r, int64_t group, const char *text);
void reply_frequencies(reply *r, int64_t group, const tusk_frequencies *found);
void reply_partitioning(reply *r, int64_t group, const tusk_partitioning *made);
void reply_end(reply *r, const tusk_batch *batch);

/* In the client's process: emits a result like the trainer. False if it cannot be read, or if
 * memory is out. */
bool answer_emit(tusk_batch *batch, const answer_head *head, const char *body);

#endif
