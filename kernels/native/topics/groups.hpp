// Work on the groups of a batch.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "../shared/pool.hpp"
#include "api.h"

namespace tusk::topics {

// Calls body(group, threads) for each group: several groups concurrently, a single one with all
// threads. Returns the first failure code, in the order of groups.
template <class Body> int each_group(const tk_pass &pass, int64_t n, Body body) {
    std::vector<int> codes(n);
    bool alone = n == 1;
    parallel_for(n, alone ? 1 : pass.threads, [&](int64_t g) {
        codes[g] = code_of([&] { return body(g, alone ? pass.threads : 1); });
    });
    for (int code : codes)
        if (code != TK_OK)
            return code;
    return TK_OK;
}

// The models of a batch of groups. words: copies of the caller's structures, whose text must
// outlive them.
template <class Model> struct ModelsOfGroups {
    std::deque<Model> models;
    std::vector<tk_topic_words> words;

    const tk_topic_words *words_of(int64_t group) const {
        return words.empty() || words[group].n < 0 ? nullptr : &words[group];
    }
};

// Creates the models of a batch and starts each on its group.
template <class Made, class Spec>
int start_groups(const tk_pass &pass, const Spec &spec, const tk_topic_words *words,
                 tusk_memory *memory, tk_topics_about *about, Made **out) {
    *out = nullptr;
    return code_of([&] {
        auto made = std::make_unique<Made>();
        for (int64_t g = 0; g < pass.n_groups; g++)
            made->models.emplace_back(spec);
        if (words)
            made->words.assign(words, words + pass.n_groups);
        int code = each_group(pass, pass.n_groups, [&](int64_t g, int threads) {
            tk_pass own = pass;
            own.threads = threads;
            return made->models[g].start(pass.groups[g], made->words_of(g), own, memory, about[g]);
        });
        if (code == TK_OK)
            *out = made.release();
        return code;
    });
}

} // namespace tusk::topics
