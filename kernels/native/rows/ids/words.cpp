// Documents of words: merges the dictionaries of a group's parts into a sorted one, and replaces
// the ids of the rows by indices into it. So they depend neither on threads nor on the order of
// the rows.
#include <cstring>
#include <vector>

#include "../../../../udas/rowblock/named.h"
#include "../api.h"
#include "places.hpp"

namespace tusk {
namespace {

constexpr double NUMBERED = 1; // the label of rows whose ids are indices already

struct Word {
    uint64_t start; // its first 8 bytes, so that their order is that of the texts
    const char *text;
    uint32_t length, part, code;

    bool operator<(const Word &other) const {
        if (start != other.start)
            return start < other.start;
        int order = std::memcmp(text, other.text, std::min(length, other.length));
        return order ? order < 0 : length < other.length;
    }
    bool same(const Word &other) const {
        return length == other.length && std::memcmp(text, other.text, length) == 0;
    }
};

uint64_t start_of(const char *text, uint32_t length) {
    uint64_t start = 0;
    for (uint32_t i = 0; i < 8; i++)
        start = start << 8 | (i < length ? (unsigned char)text[i] : 0);
    return start;
}

bool of_words(const tusk_part *part) {
    return part && part->schema->n_columns == 1 && *part->schema->kind == TUSK_WORDS;
}

int sorted_words(const tusk_group *group, tusk_memory *memory, int64_t mark, Charged<Word> &room,
                 int64_t *n) {
    *n = 0;
    for (const tusk_part *p = group->parts; p; p = p->next)
        *n += p->levels->n;
    if (int code = room.take(memory, (size_t)*n))
        return code;
    Word *word = room.data();
    uint32_t part = 0;
    for (const tusk_part *p = group->parts; p; p = p->next, part++) {
        const tusk_levels *l = p->levels;
        for (uint32_t code = 0, begin = 0; code < l->n; begin = l->end[code++]) {
            uint32_t length = l->end[code] - begin;
            *word++ = {start_of(l->text + begin, length), l->text + begin, length, part, code};
        }
    }
    if (cancelled(mark))
        return TK_CANCELLED;
    std::sort(room.data(), word);
    return cancelled(mark) ? TK_CANCELLED : TK_OK;
}

// Concatenates the distinct words, with their ends; places: index by part and code.
int dictionary_of(const Word *words, int64_t n, tusk_memory *memory,
                  std::vector<std::vector<int32_t>> &places, tk_words *out) {
    int64_t distinct = 0, bytes = 0;
    for (int64_t i = 0; i < n; i++)
        if (!i || !words[i].same(words[i - 1])) {
            distinct++;
            bytes += words[i].length;
        }
    if (distinct > TUSK_MAX_NARROW_ID)
        return TK_NO_MEMORY;
    void *at;
    size_t ends = (size_t)(distinct + 1) * sizeof(int64_t);
    if (int code = tk_charged_new(memory, (int64_t)ends + bytes, &out->held, &at))
        return code;
    int64_t *offsets = (int64_t *)at, place = -1;
    char *text = (char *)at + ends;
    *offsets = 0;
    for (int64_t i = 0; i < n; i++) {
        const Word &w = words[i];
        if (!i || !w.same(words[i - 1])) {
            place++;
            std::memcpy(text + offsets[place], w.text, w.length);
            offsets[place + 1] = offsets[place] + w.length;
        }
        places[w.part][w.code] = (int32_t)place;
    }
    out->n = distinct;
    out->offsets = offsets;
    out->text = text;
    return TK_OK;
}

// The segments of a part end where those of the next nonempty part begin.
int number_rows(const tusk_group *group, int64_t mark,
                const std::vector<std::vector<int32_t>> &places) {
    size_t number = 0;
    for (const tusk_part *p = group->parts; p; p = p->next, number++) {
        const tusk_part *next = p->next;
        while (next && !next->head)
            next = next->next;
        const std::vector<int32_t> &place = places[number];
        for (const tusk_segment *s = p->head; s && !(next && s == next->head); s = s->next) {
            if (cancelled(mark))
                return TK_CANCELLED;
            double *label = tusk_labels(s);
            if (!s->n_rows || *label == NUMBERED)
                continue;
            int32_t *id = tusk_indices(s);
            for (uint32_t i = 0; i < s->nnz; i++)
                id[i] = place[(size_t)id[i]];
            std::fill_n(label, s->n_rows, NUMBERED);
        }
    }
    return TK_OK;
}

} // namespace
} // namespace tusk

int tk_has_words(const tusk_group *group) {
    return tusk::of_words(group->parts);
}

int tk_number_words(const tusk_group *group, tusk_memory *memory, int64_t mark, tk_words *out) {
    using namespace tusk;
    *out = tk_words{};
    int code = code_of([&] {
        Charged<Word> words;
        int64_t n;
        if (int failed = sorted_words(group, memory, mark, words, &n))
            return failed;
        std::vector<std::vector<int32_t>> places;
        for (const tusk_part *p = group->parts; p; p = p->next)
            places.emplace_back(p->levels->n);
        if (int failed = dictionary_of(words.data(), n, memory, places, out))
            return failed;
        return number_rows(group, mark, places);
    });
    if (code && out->held) {
        tk_charged_free(out->held);
        *out = tk_words{};
    }
    return code;
}
