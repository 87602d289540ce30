/* Payloads with weights that no other field of a model has. */
#include "../models/payload.h"
#include "topics.h"

#include <string.h>

bool tusk_keeps_weights(tusk_text bytes) {
    tusk_payload_head head;
    if (bytes.length < sizeof head)
        return false;
    memcpy(&head, bytes.data, sizeof head);
    return head.task == TUSK_TOPICS || tusk_has_compact_trees(bytes);
}

bool tusk_check_kept(tusk_text bytes, char *sentence, const char **sqlstate) {
    tusk_compact trees;
    tusk_topics topics;
    return tusk_has_compact_trees(bytes) ? tusk_compact_trees_of(bytes, &trees, sentence, sqlstate)
                                         : tusk_topics_of(bytes, &topics, sentence, sqlstate);
}
