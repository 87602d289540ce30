// Paths as models store them, as JSON.
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../shared/pool.hpp"
#include "api.h"

struct tk_path_texts {
    std::vector<std::string> text; // by group
};

namespace tusk {
namespace {

constexpr int64_t GROUPS_OF_TASK = 16;

// Appends the shortest digits that represent the number, or null if it is not finite.
void append(std::string &to, double x) {
    char digits[32];
    if (std::isfinite(x))
        to.append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
    else
        to += "null";
}

void append(std::string &to, int64_t x) {
    char digits[32];
    to.append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

// Appends a list of n items.
template <class Item> void append_list(std::string &to, int64_t n, Item item) {
    to += '[';
    for (int64_t i = 0; i < n; i++) {
        if (i)
            to += ',';
        append(to, item(i));
    }
    to += ']';
}

void append(std::string &to, const tk_path_point &point, const int64_t *feature,
            const double *weight) {
    const std::pair<const char *, double> numbers[] = {
        {"{\"lambda\":", point.lambda},
        {",\"loss\":", point.objective},
        {",\"gap\":", point.gap},
        {",\"held_out\":", point.held},
        {",\"held_out_error\":", point.held_error},
        {",\"intercept\":", point.intercept},
    };
    for (auto [name, number] : numbers) {
        to += name;
        append(to, number);
    }
    to += ",\"feature\":"; // indices, from 1 on
    append_list(to, point.n_weights, [&](int64_t i) { return feature[i] + 1; });
    to += ",\"weight\":";
    append_list(to, point.n_weights, [&](int64_t i) { return weight[i]; });
    to += '}';
}

// Text of a path, without penalties that were not fitted.
std::string text_of(const tk_path_point *points, int32_t length, int64_t chosen,
                    const int64_t *feature, const double *weight) {
    std::string out = "{\"path\":[";
    for (int32_t k = 0; k < length && !std::isnan(points[k].lambda); k++) {
        if (k)
            out += ',';
        append(out, points[k], feature, weight);
        feature += points[k].n_weights;
        weight += points[k].n_weights;
    }
    out += "],\"chosen\":";
    append(out, chosen);
    return out += '}';
}

} // namespace
} // namespace tusk

int tk_path_texts_new(const tk_chosen_paths *paths, int threads, tk_path_texts **out) {
    using namespace tusk;
    *out = nullptr;
    return code_of([&] {
        int64_t n = paths->n_groups, length = paths->length;
        auto made = std::make_unique<tk_path_texts>();
        made->text.resize(n);
        std::vector<int64_t> start(n + 1);
        for (int64_t g = 0; g < n; g++) {
            start[g + 1] = start[g];
            for (int64_t k = 0; k < length; k++)
                start[g + 1] += paths->points[g * length + k].n_weights;
        }
        parallel_for((n + GROUPS_OF_TASK - 1) / GROUPS_OF_TASK, threads, [&](int64_t t) {
            int64_t last = std::min(n, (t + 1) * GROUPS_OF_TASK);
            for (int64_t g = t * GROUPS_OF_TASK; g < last; g++)
                made->text[g] =
                    text_of(paths->points + g * length, paths->length, paths->chosen[g],
                            paths->feature + start[g], paths->weight + start[g]);
        });
        *out = made.release();
        return (int)TK_OK;
    });
}

const char *tk_path_text(const tk_path_texts *texts, int64_t group, int64_t *bytes) {
    *bytes = (int64_t)texts->text[group].size();
    return texts->text[group].data();
}

void tk_path_texts_free(tk_path_texts *texts) {
    delete texts;
}
