// One part's draws: the topics of its tokens with words of one block, document by document.
#pragma once

#include <vector>

#include "counts.hpp"
#include "lanes.hpp"

namespace tusk::topics {

// State shared by a document's tokens, and the totals as this part knows them.
struct Place {
    Place(const Width &width, const std::vector<double> &alpha, const std::vector<int64_t> &totals,
          float beta, double smoothing);

    // Counts a document's topics, and computes the weights of all topics.
    void begin(const uint16_t *topic, int64_t n);
    void move(uint32_t from, uint32_t to);

    Width width;
    float beta;
    double smoothing; // W beta
    std::vector<float> alpha, inverse, weight, sums;
    std::vector<int32_t> in_document, total;
    double all; // the sum of `weight`
};

// The current topic of a token, which does not count when it is redrawn.
struct Own {
    int32_t topic;
    float excess; // its excess in its topic's weight
};

uint32_t draw_from_row(Place &place, const int32_t *row, uint32_t own, float u);
uint32_t draw_from_list(Place &place, const int32_t *list, int32_t n, uint32_t own, float u);

} // namespace tusk::topics
