// Topics of a batch of groups.
#include <algorithm>

#include "groups.hpp"
#include "topics.hpp"

struct tk_topics : tusk::topics::ModelsOfGroups<tusk::topics::Model> {};

using namespace tusk;
using namespace tusk::topics;

int tk_topics_new(const tk_pass *pass, const tk_topics_spec *spec, const tk_topic_words *words,
                  tusk_memory *memory, tk_topics_about *about, tk_topics **out) {
    return start_groups(*pass, *spec, words, memory, about, out);
}

void tk_topics_free(tk_topics *topics) {
    delete topics;
}

int tk_topics_sweep(tk_topics *topics, const tk_pass *pass, int64_t sweeps) {
    return code_of([&] {
        return each_group(*pass, (int64_t)topics->models.size(), [&](int64_t g, int threads) {
            int code = TK_OK;
            for (int64_t i = 0; i < sweeps && code == TK_OK; i++)
                code = topics->models[g].sweep(*pass, threads);
            return code;
        });
    });
}

int tk_topics_likelihood(tk_topics *topics, const tk_pass *pass, double *out) {
    return code_of([&] {
        return each_group(*pass, (int64_t)topics->models.size(), [&](int64_t g, int threads) {
            out[g] = topics->models[g].likelihood(*pass, threads);
            return cancelled(pass->cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
        });
    });
}

int tk_topics_optimize(tk_topics *topics, const tk_pass *pass, int64_t steps) {
    return code_of([&] {
        return each_group(*pass, (int64_t)topics->models.size(), [&](int64_t g, int) {
            return topics->models[g].optimize(*pass, steps);
        });
    });
}

int64_t tk_topics_bytes(const tk_topics *topics, int64_t group) {
    return topics->models[group].bytes(topics->words_of(group));
}

int tk_topics_write(const tk_topics *topics, int64_t group, void *out) {
    return code_of([&] {
        topics->models[group].write(topics->words_of(group), (char *)out);
        return (int)TK_OK;
    });
}

void tk_topics_copy(const tk_topics *topics, int64_t group, int64_t *start, uint32_t *word,
                    uint16_t *topic) {
    topics->models[group].copy(start, word, topic);
}
