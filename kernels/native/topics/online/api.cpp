// Online variational Bayes of a batch of groups.
#include "../groups.hpp"
#include "online.hpp"

struct tk_online : tusk::topics::ModelsOfGroups<tusk::topics::Online> {};

using namespace tusk;
using namespace tusk::topics;

int tk_online_new(const tk_pass *pass, const tk_online_spec *spec, const tk_topic_words *words,
                  tusk_memory *memory, tk_topics_about *about, tk_online **out) {
    return start_groups(*pass, *spec, words, memory, about, out);
}

void tk_online_free(tk_online *topics) {
    delete topics;
}

int tk_online_pass(tk_online *topics, const tk_pass *pass) {
    return code_of([&] {
        return each_group(*pass, (int64_t)topics->models.size(), [&](int64_t g, int threads) {
            return topics->models[g].pass_over(*pass, threads);
        });
    });
}

int tk_online_bound(tk_online *topics, const tk_pass *pass, double *out) {
    return code_of([&] {
        return each_group(*pass, (int64_t)topics->models.size(), [&](int64_t g, int threads) {
            return topics->models[g].bound(*pass, threads, out + g);
        });
    });
}

int64_t tk_online_bytes(const tk_online *topics, int64_t group) {
    return topics->models[group].bytes(topics->words_of(group));
}

int tk_online_write(const tk_online *topics, int64_t group, void *out) {
    return code_of([&] {
        topics->models[group].write(topics->words_of(group), (char *)out);
        return (int)TK_OK;
    });
}

void tk_online_lambda(tk_online *topics, int64_t group, int32_t set, double *values) {
    topics->models[group].copy_lambda(set, values);
}
