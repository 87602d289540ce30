/* Latent Dirichlet allocation by online variational Bayes (M. Hoffman, D. Blei and F. Bach,
 * Online learning for latent Dirichlet allocation, NIPS 2010, algorithm 2). The posterior is
 * approximated by a product of theta_d ~ Dirichlet(gamma_d) and phi_k ~ Dirichlet(lambda_k).
 * For a batch of documents gamma is optimised with lambda fixed, and lambda moves by the step
 * rho_t = (offset + t)^-decay towards its optimum for a corpus of such documents. Documents are
 * ordered by their content, and sums over them are taken in that order: threads change no bit. */
#ifndef TUSK_TOPICS_ONLINE_API_H
#define TUSK_TOPICS_ONLINE_API_H

#include "../api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tk_online_spec {
    int32_t topics; /* K */
    int32_t batch;  /* documents */
    double alpha, beta;
    double offset, decay;
    double tolerance; /* a document is done when gamma changes by less, the mean over topics */
    int64_t steps;    /* or after this many steps */
    uint64_t seed;
    int64_t spends; /* as in tk_topics_spec */
} tk_online_spec;

/* Reads the documents, and draws lambda around beta + 1. See tk_topics_new. */
typedef struct tk_online tk_online;
TK_API int tk_online_new(const tk_pass *pass, const tk_online_spec *spec,
                         const tk_topic_words *words, tusk_memory *memory, tk_topics_about *about,
                         tk_online **out);
TK_API void tk_online_free(tk_online *topics);
/* One pass over the documents. TK_OUT_OF_TIME: some batches are missing. */
TK_API int tk_online_pass(tk_online *topics, const tk_pass *pass);
/* The bound of log p(w | alpha, beta) of each group, which training maximises. out:
   (n_groups,). */
TK_API int tk_online_bound(tk_online *topics, const tk_pass *pass, double *out);
/* Like the functions of topics/api.h; counts are lambda - beta. */
TK_API int64_t tk_online_bytes(const tk_online *topics, int64_t group);
TK_API int tk_online_write(const tk_online *topics, int64_t group, void *out);
/* Copies a group's lambda, (K, V) in C order, from or to `values`; 0 for words that do not
   occur. */
TK_API void tk_online_lambda(tk_online *topics, int64_t group, int32_t set, double *values);

#ifdef __cplusplus
}
#endif
#endif
