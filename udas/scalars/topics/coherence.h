/* Coherence of topics by how often their most probable words occur together in reference
 * documents (M. Röder, A. Both and A. Hinneburg, Exploring the space of topic coherence
 * measures, WSDM 2015). u_mass: the mean over pairs of a topic's words, w_j more probable than
 * w_i, of log((D(w_i, w_j) / D + e) / (D(w_j) / D)), D counts documents, e = 1e-12; 0 if D(w_j)
 * is 0. c_v: the mean over a topic's words w_i of the cosine of the vectors v(w_i) and sum over
 * j of v(w_j), where v(w_i) has the normalised pointwise mutual information of w_i and each
 * word of the topic: log((P(i, j) + e) / (P(i) P(j))) / -log(P(i, j) + e). P are shares of
 * windows of 110 tokens that slide over the documents; a shorter document is one window.
 * Documents are first reduced to the positions of the words that are among the best of a topic. */
#ifndef TUSK_COHERENCE_H
#define TUSK_COHERENCE_H

#include "topics.h"

enum tusk_coherence { TUSK_U_MASS, TUSK_C_V };

#define TUSK_COHERENCE_WINDOW 110
#define TUSK_NEEDS_ORDER "measure 'c_v' needs the order of words, expected a list of words"
#define TUSK_OTHER_MODEL "the rows of a group have different models, expected one"

/* The measure by its name. False with a sentence for an unknown name. */
bool tusk_coherence_of(tusk_text name, enum tusk_coherence *measure, char *sentence);
/* Number of words of each topic that a call may use; 0 with a sentence if it is invalid. */
uint32_t tusk_coherence_words(const tusk_topics *topics, int64_t words, char *sentence);

/* The n most probable words of each topic, [n_topics][n], of which `found` exist. */
typedef struct tusk_best_words {
    uint32_t n, found;
    tusk_top_word *word;
} tusk_best_words;

/* Marks each word that is among the best ones of some topic with 1. mark: [n_words] zeros. */
void tusk_mark_best(const tusk_topics *topics, const tusk_best_words *best, uint8_t *mark);

/* Encodes a document as numbers: their count, its tokens, and for each marked word its position
 * and its id. out: room for 2 + 2 n. Returns the count of numbers written. */
uint64_t tusk_reduce_document(tusk_inference *by, const uint8_t *mark, const tusk_text *words,
                              uint64_t n, int32_t *out);
/* The same for ids, for u_mass, which needs no positions. */
uint64_t tusk_reduce_ids(const tusk_inference *by, const uint8_t *mark,
                         const tusk_word_counts *document, int32_t *out);

/* Whether bytes are a reduced document of this model, as these functions write it. */
bool tusk_is_reduced(const tusk_topics *topics, const uint8_t *mark, const char *bytes,
                     uint64_t size);

/* The mean coherence of the topics over concatenated reduced documents; NaN if there is none.
 * False if memory is out. */
bool tusk_coherence(const tusk_topics *topics, const tusk_best_words *best,
                    const int32_t *documents, uint64_t length, enum tusk_coherence measure,
                    double *coherence);

#endif
