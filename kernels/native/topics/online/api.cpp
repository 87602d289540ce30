// Online variational Bayes of a batch of groups.
#include <deque>

#include "../groups.hpp"
#include "online.hpp"

// words: copies of what the caller gave, whose text must stay.
struct tk_online {
    std::deque<tusk::topics::Online> models;
    std::vector<tk_topic_words> words;

    const tk_topic_words *words_of(int64_t group) const {
        return words.empty() || words[group].n < 0 ? nullptr : &words[group];
    }
};

using namespace tusk;
using namespace tusk::topics;

int tk_online_new(const tk_pass *pass, const tk_online_spec *spec, const tk_topic_words *words,
                  tusk_memory *memory, tk_topics_about *about, tk_online **out) {
    *out = nullptr;
    return code_of([&] {
        auto made = std::make_unique<tk_online>();
        for (int64_t g = 0; g < pass->n_groups; g++)
            made->models.emplace_back(*spec);
        if (words)
            made->words.assign(words, words + pass->n_groups);
        int code = each_group(*pass, pass->n_groups, [&](int64_t g, int threads) {
            tk_pass own = *pass;
            own.threads = threads;
            return made->models[g].start(pass->groups[g], made->words_of(g), own, memory,
                                         about[g]);
        });
        if (code == TK_OK)
            *out = made.release();
        return code;
    });
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
