/* Topics in a model's payload: latent Dirichlet allocation (D. Blei, A. Ng and M. Jordan, JMLR 3,
 * 2003). kernels/topics/blob.py describes the bytes.
 *
 * p(word w | topic k) = (n_kw + beta) / (n_k + beta W), for the W words that occur in the
 * training.
 */
#ifndef TUSK_TOPICS_H
#define TUSK_TOPICS_H

#include "../models/score.h"

/* Numbers at any address. */
typedef uint16_t tusk_u16 __attribute__((aligned(1)));
typedef uint32_t tusk_u32 __attribute__((aligned(1)));
typedef float tusk_f32 __attribute__((aligned(1)));

/* Checked topics, which point into the bytes. */
typedef struct tusk_topics {
    uint32_t n_topics, n_words; /* words that ids can name, whether or not they occur */
    uint64_t n_entries;
    double beta, occurring;            /* W */
    const tusk_weight *alpha, *totals; /* [n_topics] */
    const tusk_u32 *start;             /* [n_words + 1] offset of the entries of each word */
    const tusk_u16 *topic;             /* [n_entries] */
    const tusk_u32 *count;             /* [n_entries] or NULL, and then: */
    const tusk_f32 *share;             /* [n_entries] counts that are not whole */
    const tusk_u32 *offset;            /* [n_words + 1] of the dictionary; NULL: words are ids */
    const char *text;
} tusk_topics;

/* Opens and checks topics; false if the bytes are invalid. */
bool tusk_topics_open(const char *bytes, uint64_t size, tusk_topics *topics);
/* The topics of a payload. False with a sentence and an SQLSTATE if it is damaged or of another
 * model. */
bool tusk_topics_of(tusk_text payload, tusk_topics *topics, char *sentence, const char **sqlstate);

static inline double tusk_entry(const tusk_topics *t, uint64_t i) {
    return t->count ? t->count[i] : t->share[i];
}
/* Whether a word occurred in the training; others carry no information on topics. */
static inline bool tusk_word_occurs(const tusk_topics *t, int64_t id) {
    return id >= 0 && id < t->n_words && t->start[id] < t->start[id + 1];
}
/* A word of the dictionary. */
static inline tusk_text tusk_topic_word(const tusk_topics *t, uint32_t id) {
    return (tusk_text){t->text + t->offset[id], t->offset[id + 1] - t->offset[id]};
}

/* --- documents --- */

/* State for documents of one model; reusable for documents of the same model. */
typedef struct tusk_inference {
    const tusk_topics *topics;
    double *scale, *weight, *theta, *next; /* [n_topics] */
    double all_alpha;
    uint32_t *known; /* ids + 1 of words that were looked up before, by hash; 0: none */
} tusk_inference;

/* The bytes of memory for a model's documents, at an address that is a multiple of 8, and an
 * initialiser for them. */
size_t tusk_inference_room(const tusk_topics *topics);
tusk_inference tusk_inference_in(void *room, const tusk_topics *topics);

/* A document as the words that occurred in the training, n of them, each once. */
typedef struct tusk_word_counts {
    int32_t *id;
    float *count;
    float *spare; /* room for another count of each */
    uint64_t n;
    bool any; /* whether it has a token, also one that did not occur in the training */
} tusk_word_counts;

/* Whether a document has tokens, and the training had none of them: then it has no topics. */
static inline bool tusk_is_strange(const tusk_word_counts *d) {
    return d->any && !d->n;
}

/* The id of a word, -1 if the dictionary lacks it. Most words of documents are repeated. */
int64_t tusk_id_of_word(tusk_inference *by, tusk_text word);

/* Counts n words, ignoring those whose data is NULL. room: tusk_words_room(n) bytes. */
tusk_word_counts tusk_count_document(tusk_inference *by, const tusk_text *words, uint64_t n,
                                     void *room);
/* Counts ids, in the same room. False with a sentence if a count is invalid. */
bool tusk_count_ids(const tusk_inference *by, const tusk_sparse_row *row, bool f64, void *room,
                    tusk_word_counts *found, char *sentence);

/* The proportions of topics in a document, theta [n_topics]. */
void tusk_infer_topics(tusk_inference *by, const tusk_word_counts *document, double *theta);
/* Document completion (H. Wallach et al., Evaluation methods for topic models, ICML 2009): the log
 * probability of half of the tokens by the topics of the others, and how many these are. */
void tusk_complete_document(tusk_inference *by, const tusk_word_counts *document,
                            double *log_likelihood, double *tokens);

/* --- topics as tables --- */

typedef struct tusk_top_word {
    uint32_t id;
    double probability;
} tusk_top_word;

/* Number of words of each topic that a call may request, given its argument; 0 with a sentence
 * if it is invalid. */
uint32_t tusk_top_room(const tusk_topics *topics, int64_t words, char *sentence);
/* The n most probable words of each topic, best first; ties by the lower id. out:
 * [n_topics][n]. Returns the number that exist, at most n. */
uint32_t tusk_top_words(const tusk_topics *topics, uint32_t n, tusk_top_word *out);
/* The text of a word, or of its id, which is written into `number`. */
tusk_text tusk_topic_term(const tusk_topics *topics, uint32_t id, char number[16]);

#define TUSK_TAKES_TOKENS \
    "tokens are neither a list of words such as ['a', 'b'] nor sparse(ids, counts)"
#define TUSK_WORDS_NOT_IDS \
    "the model was trained on words, expected a list of words such as ['a', 'b']"
#define TUSK_IDS_NOT_WORDS "the model was trained on ids and counts, expected sparse(ids, counts)"

#endif
