// Copies of columns, charged to the account of the rows.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "../shared/charged.hpp"

namespace tusk {

// Lack of memory, as an exception with a tk_code.
struct NoMemory {
    int code;
};

// Columns of n numbers each. Throws NoMemory.
class Columns {
public:
    Columns(tusk_memory *memory, int64_t n) : memory_(memory), n_(n) {}

    size_t size() const { return at_.size(); }
    double *operator[](size_t place) const { return at_[place]; }

    // Adds columns, uninitialised.
    void grow(size_t more) {
        double *at = piece(more);
        for (size_t c = 0; c < more; c++)
            at_.push_back(at + c * n_);
    }
    // Keeps only the columns of these indices, in this order.
    void keep(const std::vector<int32_t> &places) {
        std::vector<std::unique_ptr<Charged<double>>> before;
        std::vector<double *> from;
        before.swap(pieces_);
        from.swap(at_);
        grow(places.size());
        for (size_t c = 0; c < places.size(); c++)
            std::memcpy(at_[c], from[places[c]], n_ * sizeof(double));
    }

private:
    tusk_memory *memory_;
    int64_t n_;
    std::vector<std::unique_ptr<Charged<double>>> pieces_;
    std::vector<double *> at_;

    double *piece(size_t columns) {
        auto made = std::make_unique<Charged<double>>();
        int code = made->take(memory_, columns * n_);
        if (code != TK_OK)
            throw NoMemory{code};
        pieces_.push_back(std::move(made));
        return pieces_.back()->data();
    }
};

} // namespace tusk
