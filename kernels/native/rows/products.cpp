// Interactions of columns, and text as hashed words: a feature for each combination or bucket that
// occurs.
#include <algorithm>

#include "../shared/pool.hpp"
#include "census/census.hpp"

namespace tusk {
namespace {

// The keys to keep: combinations of enough rows, and of these the most frequent.
std::vector<uint64_t> kept_keys(const Combinations &counts, const tk_preparing *how) {
    std::vector<std::pair<int64_t, uint64_t>> order; // the most frequent first, then by key
    for (auto [key, n] : counts)
        if (n >= how->min_count)
            order.emplace_back(-n, key);
    if (how->max_categories && order.size() > (size_t)how->max_categories) {
        std::sort(order.begin(), order.end());
        order.resize((size_t)how->max_categories);
    }
    std::vector<uint64_t> keys;
    for (auto [n, key] : order)
        keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    return keys;
}

int place_keys(Column &c, std::vector<uint64_t> &&keys, int32_t *next, std::string *error) {
    if (keys.size() > MOST_LEVELS)
        return refuse_levels(c.name, keys.size(), error);
    c.first = *next;
    c.width = (int32_t)keys.size();
    *next += c.width;
    c.keys = std::move(keys);
    return TK_OK;
}

int32_t most_entries(const Columns &all, const Column &c) {
    int32_t n = 1;
    for (size_t f : c.factors)
        n *= all.columns[f].kind == Kind::CYCLE ? 2 : 1;
    return n;
}

// The index of the first product; these come last.
size_t first_product(const Columns &all) {
    size_t n = 0;
    while (n < all.columns.size() && all.columns[n].kind != Kind::PRODUCT)
        n++;
    return n;
}

// The counts of the rows of all parts.
std::vector<Combinations> known_combinations(const tk_preparing *how, size_t first, size_t end) {
    std::vector<Combinations> counts(end - first);
    for (size_t j = first; j < end; j++)
        for (const auto &[key, n] : known_of(how, j)->count)
            counts[j - first].emplace(of_key<uint64_t>(key), n);
    return counts;
}

// The bucket of each word and each pair of a text, with counts.
Words words_in(std::string_view text, int bits) {
    std::vector<int32_t> buckets;
    const char *at = text.data(), *end = at + text.size();
    uint64_t before = 0;
    for (uint64_t word; (word = tusk_next_word(&at, end)); before = word) {
        buckets.push_back((int32_t)tusk_bucket(0, word, bits));
        if (before)
            buckets.push_back((int32_t)tusk_bucket(before, word, bits));
    }
    std::sort(buckets.begin(), buckets.end());
    Words out;
    for (int32_t bucket : buckets)
        if (!out.empty() && out.back().first == bucket)
            out.back().second++;
        else
            out.emplace_back(bucket, 1);
    return out;
}

} // namespace

int count_products(const tusk_group *group, const tk_preparing *how, const Columns &all,
                   std::vector<Combinations> *counts) {
    const size_t n = first_product(all);
    counts->assign(all.columns.size() - n, {});
    std::vector<Entries> at(n);
    return each_row(group, how->cancel_mark, [&](const auto *x, size_t part) {
        for (size_t j = 0; j < n; j++)
            if (all.columns[j].kind != Kind::WORDS)
                at[j] = all.columns[j].entries_of(x[all.columns[j].source], part);
        for (size_t k = 0; k < counts->size(); k++)
            each_combination(all, all.columns[n + k], at.data(),
                             [&](uint64_t key, double) { (*counts)[k][key]++; });
    });
}

int decide_products(const tusk_group *group, const tk_preparing *how, Columns *out, int32_t *next,
                    std::string *error) {
    const size_t n = first_product(*out);
    if (n == out->columns.size())
        return TK_OK;
    std::vector<Combinations> counts;
    int code = TK_OK;
    if (how->census)
        counts = known_combinations(how, n, out->columns.size());
    else
        code = count_products(group, how, *out, &counts);
    for (size_t k = 0; !code && k < counts.size(); k++) {
        Column &c = out->columns[n + k];
        code = place_keys(c, kept_keys(counts[k], how), next, error);
        for (size_t i = 0; i < c.keys.size(); i++)
            c.product.emplace(c.keys[i], c.first + (int32_t)i);
        out->entries += most_entries(*out, c);
    }
    return code;
}

std::vector<uint64_t> buckets_in(const Columns &all, const tk_preparing *how, const Column &c) {
    std::vector<uint64_t> buckets;
    for (const tusk_part *part : all.parts)
        for (uint32_t code = 0; code < part->levels[c.source].n; code++)
            for (auto [bucket, n] :
                 words_in(level_text(part->levels[c.source], code), how->word_bits))
                buckets.push_back((uint64_t)bucket);
    std::sort(buckets.begin(), buckets.end());
    buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    return buckets;
}

int decide_words(const tk_preparing *how, Columns *out, size_t column, int32_t *next,
                 std::string *error) {
    Column &c = out->columns[column];
    std::vector<uint64_t> buckets;
    if (const ColumnCounts *known = known_of(how, column))
        for (const auto &[key, n] : known->count)
            buckets.push_back(of_key<uint64_t>(key));
    c.words.resize(out->parts.size());
    for (size_t p = 0; p < out->parts.size(); p++) {
        const tusk_levels &levels = out->parts[p]->levels[c.source];
        for (uint32_t code = 0; code < levels.n; code++) {
            c.words[p].push_back(words_in(level_text(levels, code), how->word_bits));
            for (auto [bucket, n] : c.words[p].back())
                buckets.push_back((uint64_t)bucket);
        }
        std::sort(buckets.begin(), buckets.end());
        buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
    }
    if (int code = place_keys(c, std::move(buckets), next, error))
        return code;
    for (auto &part : c.words)
        for (Words &text : part)
            for (auto &[bucket, n] : text)
                bucket = c.first + (int32_t)(std::lower_bound(c.keys.begin(), c.keys.end(),
                                                              (uint64_t)bucket) -
                                             c.keys.begin());
    return TK_OK;
}

} // namespace tusk
