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

int tk_topics_new_part(const tk_pass *pass, const tk_topics_spec *spec,
                       const tk_topic_table *table, tusk_memory *memory, tk_topics_about *about,
                       tk_topics **out) {
    *out = nullptr;
    return code_of([&] {
        auto made = std::make_unique<tk_topics>();
        Model &model = made->models.emplace_back(*spec);
        int code = model.start_part(pass->groups[0], *table, *pass, memory, *about);
        if (code == TK_OK)
            *out = made.release();
        return code;
    });
}

int tk_topics_visit_block(tk_topics *part, const tk_pass *pass, const tk_topics_visit *visit,
                          int64_t *totals) {
    return code_of([&] { return part->models[0].visit(*pass, *visit, totals); });
}

int64_t tk_topics_block_words(const tk_topics *part, int32_t block) {
    return part->models[0].block_words(block);
}

int64_t tk_topics_block_counts(const tk_topics *part, int32_t block) {
    return part->models[0].block_counts(block);
}

void tk_topics_block(const tk_topics *part, int32_t block, uint32_t *listed, uint16_t *topic,
                     uint32_t *times) {
    part->models[0].write_block(block, listed, topic, times);
}

void tk_topics_block_places(const tk_topics *part, int32_t block, uint32_t *place) {
    part->models[0].write_places(block, place);
}

void tk_topics_state(tk_topics *part, int32_t set, uint16_t *topic) {
    part->models[0].state(set, topic);
}

int tk_topics_documents(tk_topics *part, const tk_pass *pass, const double *alpha, double *out) {
    return code_of([&] {
        *out = part->models[0].documents_likelihood(*pass, alpha);
        return cancelled(pass->cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
    });
}

int tk_topics_alpha_terms(tk_topics *part, const tk_pass *pass, const double *alpha, double *out) {
    return code_of([&] { return part->models[0].alpha_terms(*pass, alpha, out); });
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
