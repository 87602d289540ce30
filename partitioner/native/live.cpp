// Features that occur, by pages of 2^16 ids. A page is a sorted array if it has few ids, otherwise
// a bitmap with counts (Chambi, Lemire, Kaser, Godin, *Better bitmap performance with Roaring
// bitmaps*, Software: Practice and Experience 46(5), 2016). An id's number is how many of these
// features are below it.
#include "api.h"

#include <algorithm>

namespace {

constexpr int64_t PAGE = 1 << 16;
constexpr int64_t PAGE_WORDS = PAGE / 64;
constexpr int64_t COUNTS = 128, COUNTED_WORDS = PAGE_WORDS / COUNTS; // a count each 512 ids
constexpr int64_t WORD = 4;                                          // uint16 of a bitmap's word

struct Bitmap { // counts of the ids before each 512, then the words
    explicit Bitmap(const uint16_t *page) : counts(page), words(page + COUNTS) {}
    uint64_t word(int64_t at) const {
        uint64_t bits = 0;
        __builtin_memcpy(&bits, words + at * WORD, sizeof bits);
        return bits;
    }
    const uint16_t *counts, *words;
};

int64_t number_in(const Bitmap &page, int64_t low) {
    const uint64_t bits = page.word(low / 64), bit = uint64_t{1} << low % 64;
    if (!(bits & bit)) {
        return -1;
    }
    int64_t number = page.counts[low / 512] + __builtin_popcountll(bits & (bit - 1));
    for (int64_t at = low / 512 * COUNTED_WORDS; at < low / 64; ++at) {
        number += __builtin_popcountll(page.word(at));
    }
    return number;
}

int64_t number_in(const uint16_t *ids, int64_t n, int64_t low) {
    const uint16_t *at = std::lower_bound(ids, ids + n, static_cast<uint16_t>(low));
    return at < ids + n && *at == low ? at - ids : -1;
}

int64_t id_in(const Bitmap &page, int64_t number) {
    const uint16_t *above = std::upper_bound(page.counts, page.counts + COUNTS, number);
    int64_t at = (above - page.counts - 1) * COUNTED_WORDS;
    int64_t left = number - above[-1];
    uint64_t bits = page.word(at);
    for (int64_t n; (n = __builtin_popcountll(bits)) <= left; left -= n) {
        bits = page.word(++at);
    }
    for (; left > 0; --left) {
        bits &= bits - 1;
    }
    return at * 64 + __builtin_ctzll(bits);
}

void pack_bitmap(const uint64_t *bits, uint16_t *out) {
    int64_t count = 0;
    for (int64_t at = 0; at < PAGE_WORDS; ++at) {
        if (at % COUNTED_WORDS == 0) {
            out[at / COUNTED_WORDS] = static_cast<uint16_t>(count);
        }
        count += __builtin_popcountll(bits[at]);
    }
    __builtin_memcpy(out + COUNTS, bits, PAGE / 8);
}

void pack_ids(const uint64_t *bits, uint16_t *out) {
    for (int64_t at = 0; at < PAGE_WORDS; ++at) {
        for (uint64_t left = bits[at]; left; left &= left - 1) {
            *out++ = static_cast<uint16_t>(at * 64 + __builtin_ctzll(left));
        }
    }
}

} // namespace

void tp_live_mark(uint64_t *bits, int64_t first, int64_t size, const int32_t *ids, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
        const auto at = static_cast<uint64_t>(ids[k] - first);
        if (at < static_cast<uint64_t>(size)) {
            bits[at / 64] |= uint64_t{1} << at % 64;
        }
    }
}

void tp_live_count(const uint64_t *bits, int64_t n_pages, int32_t *counts) {
    for (int64_t p = 0; p < n_pages; ++p) {
        counts[p] = 0;
        for (int64_t at = p * PAGE_WORDS; at < (p + 1) * PAGE_WORDS; ++at) {
            counts[p] += __builtin_popcountll(bits[at]);
        }
    }
}

void tp_live_pack(const uint64_t *bits, const tp_page *pages, int64_t n_pages, uint16_t *data) {
    for (int64_t p = 0; p < n_pages; ++p) {
        const uint64_t *page = bits + p * PAGE_WORDS;
        uint16_t *out = data + pages[p].offset;
        pages[p].is_bitmap ? pack_bitmap(page, out) : pack_ids(page, out);
    }
}

void tp_live_number(const tp_page *pages, int64_t n_pages, const uint16_t *data,
                    const int64_t *ids, int64_t n, int64_t *numbers) {
    for (int64_t k = 0; k < n; ++k) {
        const int64_t p = ids[k] / PAGE, low = ids[k] % PAGE;
        numbers[k] = -1;
        if (p >= n_pages) {
            continue;
        }
        const tp_page &page = pages[p];
        const uint16_t *begin = data + page.offset;
        const int64_t within =
            page.is_bitmap ? number_in(Bitmap(begin), low) : number_in(begin, page.count, low);
        if (within >= 0) {
            numbers[k] = page.first + within;
        }
    }
}

void tp_live_ids(const tp_page *pages, int64_t n_pages, const uint16_t *data,
                 const int64_t *numbers, int64_t n, int64_t *ids) {
    const tp_page *page = pages;
    for (int64_t k = 0; k < n; ++k) {
        const int64_t number = numbers[k];
        if (number < page->first || number >= page->first + page->count) {
            page = std::upper_bound(
                       pages, pages + n_pages, number,
                       [](int64_t wanted, const tp_page &one) { return wanted < one.first; }) -
                   1;
        }
        const uint16_t *begin = data + page->offset;
        const int64_t within = number - page->first;
        const int64_t low = page->is_bitmap ? id_in(Bitmap(begin), within) : begin[within];
        ids[k] = (page - pages) * PAGE + low;
    }
}
