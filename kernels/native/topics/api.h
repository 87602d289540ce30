/* Latent Dirichlet allocation: topics of documents, whose words are exchangeable.
 *
 * The model: theta_d ~ Dirichlet(alpha), phi_k ~ Dirichlet(beta), z_i ~ theta_d, w_i ~ phi_{z_i}
 * (D. Blei, A. Ng and M. Jordan, Latent Dirichlet allocation, JMLR 3, 2003). With theta and phi
 * integrated out, the topic of a token has, given all others, the distribution
 *
 *   p(z_i = k) ~ (n_dk + alpha_k) (n_kw + beta) / (n_k + W beta),
 *
 * where the counts leave token i out and W is the number of different words (T. Griffiths and M.
 * Steyvers, Finding scientific topics, PNAS 101, 2004). A sweep draws each token's topic once.
 *
 * Method: the documents are dealt to P parts and the words to P blocks. In a rotation, part p
 * draws the topics of its tokens with words of block p, p + 1, ... mod P, so that no two parts
 * change the counts of one word (J. K. Kim et al., SMPFRAME, CMU-PDL-15-103, 2015, sections 3.3.1
 * and 4.2). A part begins a block as soon as its neighbour has left it; all parts meet at the end
 * of the rotation alone. A sweep takes the documents window by window, with a rotation of each, so
 * tokens that lie in the spill file are read once a sweep, in their order.
 * Only the totals n_k lag behind: a part knows its own changes, and those of the others from the
 * last rotation on; with one part they do not. P depends on the number of tokens alone, and each
 * draw has a random number of its own: threads change no bit.
 * Weights of frequent words are computed for all topics, with vectors. Those of rare words are
 * split as in L. Yao, D. Mimno and A. McCallum, Efficient methods for topic model inference on
 * streaming document collections, KDD 2009: topics that the word has, and all others.
 */
#ifndef TUSK_TOPICS_API_H
#define TUSK_TOPICS_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_MOST_TOPICS 32000
#define TK_MOST_TOKENS 2146435071 /* 2^31 - 2^20 - 1 */
#define TK_WINDOW 4194304

#define TK_FEW_TOKENS 2000000 /* of a group, regardless of its counts */
#define TK_FEW_PER_COUNT 100  /* mean tokens per count, in groups of more tokens */

enum tk_topics_fault {
    TK_COUNTS_FINE = 0,
    TK_BAD_COUNT = 1,
    TK_TOO_MANY_TOKENS = 2,
    TK_LARGE_COUNTS = 3, /* TK_FEW_TOKENS and TK_FEW_PER_COUNT */
};

typedef struct tk_topics_spec {
    int32_t topics; /* K */
    int32_t parts;  /* P; 0: by the number of tokens */
    double alpha, beta;
    uint64_t seed;
    int64_t spends; /* 1: the rows are not read after tk_topics_new, which frees the memory of
                     * those of large groups */
    int64_t window; /* tokens of a window of documents; 0: TK_WINDOW */
} tk_topics_spec;

/* The words of a group's features, in the order of their ids: concatenated UTF-8. */
typedef struct tk_topic_words {
    const char *text;
    const int64_t *offsets; /* (n + 1,) */
    int64_t n;              /* below 0: features are ids */
    const uint8_t *dropped; /* (n,): whether a word is left out of all documents; NULL: none is */
} tk_topic_words;

/* Statistics of the documents of a group. */
typedef struct tk_topics_about {
    int64_t tokens;    /* the sum of all counts */
    int64_t counts;    /* number of counts in all documents, one per distinct word */
    int64_t words;     /* W, words that occur */
    int64_t documents; /* number with a token */
    int32_t parts;
    int32_t fault;  /* enum tk_topics_fault */
    int64_t bad_id; /* the feature with an invalid count */
    double bad_count;
} tk_topics_about;

/* Reads the documents, which are sparse rows of counts, and gives each token a random topic.
 * words: (n_groups,), or NULL if all features are ids. TK_REFUSED: a group's `fault` is the
 * reason. */
typedef struct tk_topics tk_topics;
TK_API int tk_topics_new(const tk_pass *pass, const tk_topics_spec *spec,
                         const tk_topic_words *words, tusk_memory *memory, tk_topics_about *about,
                         tk_topics **out);
TK_API void tk_topics_free(tk_topics *topics);
/* Runs further sweeps, with the threads, the deadline and the cancel mark of the pass.
 * TK_OUT_OF_TIME: the last sweep is incomplete, and the counts are still those of the topics. */
TK_API int tk_topics_sweep(tk_topics *topics, const tk_pass *pass, int64_t sweeps);
/* log p(w, z | alpha, beta) of each group. out: (n_groups,). */
TK_API int tk_topics_likelihood(tk_topics *topics, const tk_pass *pass, double *out);
/* Steps of the fixed point for alpha (T. Minka, Estimating a Dirichlet distribution, 2000,
 * equation 55), given the topics of all tokens. */
TK_API int tk_topics_optimize(tk_topics *topics, const tk_pass *pass, int64_t steps);
/* The model of a group as bytes, in the layout of kernels/topics/blob.py; a multiple of 8. */
TK_API int64_t tk_topics_bytes(const tk_topics *topics, int64_t group);
TK_API int tk_topics_write(const tk_topics *topics, int64_t group, void *out);
/* Copies a group's tokens: the offset of each document, (documents + 1,), and word and topic of
 * each token, (tokens,). Words are numbered like the features, or in their sorted order. */
TK_API void tk_topics_copy(const tk_topics *topics, int64_t group, int64_t *start, uint32_t *word,
                           uint16_t *topic);

/* --- one part of a group's documents, where other workers have the others --- */
/* The words are dealt to blocks, of which spec.parts has the number, by the frequencies in all
 * parts; so each part has the same blocks. A block's counts n_kw travel from part to part, and a
 * part has those of one block at a time. */
typedef struct tk_topic_table {
    int64_t n;                 /* V, words of all parts */
    const uint32_t *frequency; /* (V,), tokens of each; 0: the word is left out */
    const uint32_t *rank;      /* of the part's words by id, their places in the table; NULL: ids
                                * are places */
} tk_topic_table;
/* Reads the documents of one group and gives each token a random topic. Of the other functions
 * tk_topics_free and those below take the result. */
TK_API int tk_topics_new_part(const tk_pass *pass, const tk_topics_spec *spec,
                              const tk_topic_table *table, tusk_memory *memory,
                              tk_topics_about *about, tk_topics **out);
/* The counts of a block's words: how many topics each has, and these topics with their counts. */
typedef struct tk_topics_visit {
    int64_t sweep; /* number of the rotation, from 1 on; 0: the part's tokens are added to the
                    * counts, and none is drawn */
    int32_t block;
    const uint32_t *listed; /* (words of the block,) */
    const uint16_t *topic;  /* (counts,), rising within a word, whatever was drawn before */
    const uint32_t *times;  /* (counts,) */
    const double *alpha;    /* (K,) */
} tk_topics_visit;
/* Draws the topics of the part's tokens with words of a block. totals: (K,), n_k as the part
 * knows them, which it changes. */
TK_API int tk_topics_visit_block(tk_topics *part, const tk_pass *pass,
                                 const tk_topics_visit *visit, int64_t *totals);
/* The number of a block's words, and of the counts of the block that was visited last. */
TK_API int64_t tk_topics_block_words(const tk_topics *part, int32_t block);
TK_API int64_t tk_topics_block_counts(const tk_topics *part, int32_t block);
TK_API void tk_topics_block(const tk_topics *part, int32_t block, uint32_t *listed,
                            uint16_t *topic, uint32_t *times);
/* The places of a block's words in the table. */
TK_API void tk_topics_block_places(const tk_topics *part, int32_t block, uint32_t *place);
/* Copies the topics of all tokens, or sets them. topic: (tokens,). */
TK_API void tk_topics_state(tk_topics *part, int32_t set, uint16_t *topic);
/* log p(z | alpha) of the part's documents. */
TK_API int tk_topics_documents(tk_topics *part, const tk_pass *pass, const double *alpha,
                               double *out);
/* The part's sums of the fixed point for alpha: numerators (K,), and the denominator. */
TK_API int tk_topics_alpha_terms(tk_topics *part, const tk_pass *pass, const double *alpha,
                                 double *out);

#ifdef __cplusplus
}
#endif
#endif
