// Passes with a custom loss function, or over chosen rows that have weights. Rows are processed in
// tiles. Workers compute the margins, the thread that called the kernel calls the loss once for
// all rows of the tile, and workers sum gradient and curvature. So a loss in Python costs one call
// per 65,536 rows, regardless of the number of groups.
#include <atomic>
#include <vector>

#include "../epochs/step_weights.hpp"
#include "api.h"
#include "links.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

constexpr int64_t TILE_ROWS = 1 << 16;

// Neighbouring rows of one group, or neighbours in the list of its chosen rows. `at` is the
// position of the first one in the tile.
struct Piece {
    Chunk chunk;
    int64_t chosen; // position of the first row in the list of chosen rows; -1: the whole chunk
    int64_t at;
};

// Finds the segment of a row and its offset there.
class Finder {
public:
    explicit Finder(const tk_pass *pass) : first_(pass->n_groups + 1) {
        for (int64_t g = 0; g < pass->n_groups; g++) {
            first_[g] = segments_.size();
            int64_t row = 0;
            for (const tusk_segment *s : SegmentsOf(pass->groups[g])) {
                segments_.push_back({row, s});
                row += s->n_rows;
            }
        }
        first_[pass->n_groups] = segments_.size();
    }

    const tusk_segment *find(int64_t group, int64_t row, uint32_t *offset) const {
        auto begin = segments_.begin() + first_[group],
             end = segments_.begin() + first_[group + 1];
        auto it =
            std::upper_bound(begin, end, row, [](int64_t r, const Start &s) { return r < s.row; });
        --it;
        *offset = (uint32_t)(row - it->row);
        return it->segment;
    }

private:
    struct Start {
        int64_t row;
        const tusk_segment *segment;
    };
    std::vector<Start> segments_;
    std::vector<size_t> first_;
};

// Values of the rows of a tile, by position in the tile. Padded, since they are stored in vectors
// of eight.
struct Values {
    std::vector<double> margin, label, weight, loss, derivative, curvature;
    explicit Values(int64_t rows, bool weighted, bool curved)
        : margin(rows + LANES), label(rows + LANES), weight(weighted ? rows + LANES : 0),
          loss(rows + LANES), derivative(rows + LANES), curvature(curved ? rows + LANES : 0) {}
};

void dense_margins(const auto &rows, int n, int64_t d, const double *, const double *padded_w,
                   double b, double *m) {
    margins(rows, n, d, padded_w, b, m);
}
template <class T>
void dense_margins(const SparseBlock<T> &rows, int, int64_t, const double *w, const double *,
                   double b, double *m) {
    margins(rows, w, b, m);
}

template <class T>
void sum_gradient(const SparseBlock<T> &rows, int, int64_t, const double *r, double *g) {
    add_gradient(rows, r, g);
}
void sum_gradient(const auto &rows, int n, int64_t d, const double *r, double *g) {
    add_gradient(rows, n, d, r, g);
}

// The coordinates of a group: z = ((x - shift) * scale, 1).
struct Coordinates {
    int64_t d;
    const double *shift, *scale;
};

// Buffers of one thread; z has d + 1 items.
struct Scratch {
    std::vector<double> gradient, z;
    std::vector<int32_t> ids;
};

// triangle += sum_i h_i z_i z_i'.
void sum_curvature(const auto &rows, int n, const double *h, const Coordinates &to,
                   Scratch &scratch, double *triangle) {
    const auto [d, shift, scale] = to;
    std::vector<double> &z = scratch.z;
    z[d] = 1;
    for (int i = 0; i < n; i++) {
        const auto *x = rows(i);
        for (int64_t k = 0; k < d; k++)
            z[k] = ((double)x[k] - shift[k]) * scale[k];
        double *out = triangle;
        for (int64_t j = 0; j <= d; out += ++j) {
            double by = h[i] * z[j];
            for (int64_t k = 0; k <= j; k++)
                out[k] += by * z[k];
        }
    }
}
template <class T>
void sum_curvature(const SparseBlock<T> &rows, int n, const double *h, const Coordinates &to,
                   Scratch &scratch, double *triangle) {
    const auto [d, shift, scale] = to;
    std::vector<double> &z = scratch.z;
    std::vector<int32_t> &ids = scratch.ids;
    for (int i = 0; i < n; i++) {
        SparseRow<T> row = sparse_row(rows, i);
        ids.assign(row.index, row.index + row.n);
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        for (int32_t id : ids)
            z[id] = 0;
        for (uint32_t k = 0; k < row.n; k++)
            z[row.index[k]] += row.value[k] * scale[row.index[k]];
        ids.push_back((int32_t)d);
        z[d] = 1;
        for (size_t a = 0; a < ids.size(); a++) {
            int64_t j = ids[a];
            double *out = triangle + j * (j + 1) / 2, by = h[i] * z[j];
            for (size_t b = 0; b <= a; b++)
                out[ids[b]] += by * z[ids[b]];
        }
    }
}

class OpenPass {
public:
    OpenPass(const tk_pass *pass, const tk_open *open, const double *weights, const double *shift,
             const double *scale, bool curved, double *out)
        : pass_(pass), open_(open), weights_(weights), shift_(shift), scale_(scale), out_(out),
          d_(pass->groups[0].dim), curved_(curved), sparse_(tusk_is_sparse(pass->groups[0].kind)),
          finder_(pass), of_rows_(step_weights(pass)) {
        weighted_ = open->weight || pass->class_weight || of_rows_[0].any();
        width_ = pass->loss_only ? 2 : d_ + 3 + (curved ? (d_ + 1) * (d_ + 2) / 2 : 0);
        if (!sparse_)
            padded_ = PaddedWeights(pass, weights);
    }

    template <class T> int run() {
        std::fill(out_, out_ + pass_->n_groups * width_, 0.0);
        std::vector<Piece> all = pieces();
        Values values(most_rows(all), weighted_, curved_);
        for (size_t first = 0, last; first < all.size(); first = last) {
            int64_t rows = 0;
            for (last = first; last < all.size() && fits(rows, all[last]); last++) {
                all[last].at = rows;
                rows += all[last].chunk.rows;
            }
            int code = tile<T>(all.data() + first, (int64_t)(last - first), rows, values);
            if (code != TK_OK)
                return code;
        }
        return TK_OK;
    }

private:
    static bool fits(int64_t rows, const Piece &next) {
        return rows == 0 || rows + next.chunk.rows <= TILE_ROWS;
    }
    static int64_t most_rows(const std::vector<Piece> &all) {
        int64_t total = 0, largest = 0;
        for (const Piece &p : all) {
            total += p.chunk.rows;
            largest = std::max(largest, p.chunk.rows);
        }
        return std::max(largest, std::min(total, TILE_ROWS));
    }

    std::vector<Piece> pieces() const {
        int64_t most = std::max<int64_t>(chunk_rows_for(pass_), 4 * (d_ + 1));
        if (sparse_)
            most = 16384;
        most = std::min(most, TILE_ROWS);
        std::vector<Piece> found;
        if (!open_->row) {
            for (const Chunk &c : make_chunks(pass_, most))
                found.push_back({c, -1, 0});
            return found;
        }
        for (int64_t g = 0; g < pass_->n_groups; g++)
            for (int64_t i = open_->offset[g]; i < open_->offset[g + 1]; i += most) {
                int64_t rows = std::min(most, open_->offset[g + 1] - i);
                found.push_back({{g, nullptr, 0, rows, {}}, i, 0});
            }
        return found;
    }

    template <class T> int tile(const Piece *piece, int64_t n, int64_t rows, Values &v) {
        bool here = open_->loss && !open_->any_thread;
        std::atomic<int> code{TK_OK};
        parallel_for(n, pass_->threads, [&](int64_t i) {
            if (cancelled(pass_->cancel_mark))
                code = TK_CANCELLED;
            if (code != TK_OK)
                return;
            look<T>(piece[i], v);
            if (!here)
                worth(piece[i].chunk.group, piece[i].at, piece[i].chunk.rows, v, code);
        });
        if (code == TK_OK && here)
            worth(0, 0, rows, v, code);
        if (code == TK_OK && cancelled(pass_->cancel_mark))
            code = TK_CANCELLED;
        if (code == TK_OK)
            add<T>(piece, n, v);
        return code;
    }

    // Computes the margins, the labels in the form of the loss, and the weights of a piece's rows.
    template <class T> void look(const Piece &p, Values &v) {
        int64_t g = p.chunk.group, at = p.at;
        const double *w = weights_ + g * (d_ + 1), *wide = padded_.of(g);
        Labels labels(pass_, g);
        bool classes = has_classes((LossKind)pass_->loss);
        alignas(64) double m[BLOCK_ROWS];
        each_block<T>(p, [&](const auto &rows, const Targets &y, int n) {
            dense_margins(rows, n, d_, w, wide, w[d_], m);
            add_offsets(y, n, m);
            for (int i = 0; i < n; i++, at++) {
                bool positive = y.y[i] == labels.positive;
                v.margin[at] = m[i];
                v.label[at] = classes ? (positive ? 1 : -1) : y.y[i];
                if (weighted_)
                    v.weight[at] = !labels.weighted ? 1
                                   : positive       ? labels.weight_positive
                                                    : labels.weight_negative;
                if (y.weight)
                    v.weight[at] *= y.weight[i] * of_rows_[g].inverse();
            }
        });
        if (open_->weight)
            for (int64_t i = 0; i < p.chunk.rows; i++)
                v.weight[p.at + i] *= open_->weight[p.chosen + i];
    }

    // Computes loss, derivative and curvature of rows from their margins and labels. group: that
    // of the rows, for the losses in C.
    void worth(int64_t group, int64_t at, int64_t n, Values &v, std::atomic<int> &code) const {
        double *h = curved_ ? v.curvature.data() + at : nullptr;
        if (open_->loss) {
            if (open_->answered)
                *open_->answered = 0;
            if (open_->loss(v.margin.data() + at, v.label.data() + at, n, v.loss.data() + at,
                            v.derivative.data() + at, h) ||
                (open_->answered && !*open_->answered))
                code = TK_LOSS_FAILED;
            return;
        }
        with_any_loss(Loss(pass_, group), [&](const auto &loss) {
            for (int64_t i = at; i < at + n; i++) {
                LossValues<v8d> one = loss(splat(v.margin[i]), splat(v.label[i]));
                v.loss[i] = one.loss[0];
                v.derivative[i] = one.derivative[0];
                if (curved_)
                    v.curvature[i] = one.curvature[0];
            }
        });
    }

    // Adds the tile's pieces to the sums of their groups, in the order of the pieces.
    template <class T> void add(const Piece *piece, int64_t n, Values &v) {
        std::vector<int64_t> place(n, -1);
        int64_t shared = 0;
        for (int64_t i = 0; i < n; i++) {
            auto same = [&](int64_t k) {
                return k >= 0 && k < n && piece[k].chunk.group == piece[i].chunk.group;
            };
            if (same(i - 1) || same(i + 1))
                place[i] = shared++;
        }
        Counted counted(shared * width_ * (int64_t)sizeof(double));
        partial_.assign(shared * width_, 0.0);
        parallel_for(n, pass_->threads, [&](int64_t i) {
            add_piece<T>(piece[i], v,
                         place[i] < 0 ? out_ + piece[i].chunk.group * width_
                                      : partial_.data() + place[i] * width_);
        });
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; place[i] >= 0 && k < width_; k++)
                out_[piece[i].chunk.group * width_ + k] += partial_[place[i] * width_ + k];
    }

    template <class T> void add_piece(const Piece &p, Values &v, double *out) const {
        int64_t n = p.chunk.rows, g = p.chunk.group;
        if (weighted_)
            for (int64_t i = p.at; i < p.at + n; i++) {
                v.loss[i] *= v.weight[i];
                v.derivative[i] *= v.weight[i];
                if (curved_)
                    v.curvature[i] *= v.weight[i];
            }
        double loss = 0, slope = 0;
        for (int64_t i = p.at; i < p.at + n; i++) {
            loss += v.loss[i];
            slope += v.derivative[i];
        }
        out[0] += loss;
        out[1] += (double)n;
        if (pass_->loss_only)
            return;
        out[2 + d_] += slope;
        static thread_local Scratch own;
        Scratch &scratch = own; // looks up the thread's variable only once
        scratch.gradient.assign(padded(d_), 0.0);
        scratch.z.resize(d_ + 1);
        const Coordinates to{d_, shift_ + g * d_, scale_ + g * d_};
        int64_t at = p.at;
        each_block<T>(p, [&](const auto &rows, const Targets &, int rows_here) {
            sum_gradient(rows, rows_here, d_, v.derivative.data() + at, scratch.gradient.data());
            if (curved_)
                sum_curvature(rows, rows_here, v.curvature.data() + at, to, scratch, out + d_ + 3);
            at += rows_here;
        });
        for (int64_t k = 0; k < d_; k++)
            out[2 + k] += scratch.gradient[k];
    }

    template <class T, class Body> void each_block(const Piece &p, Body &&body) const {
        if (p.chosen >= 0)
            return each_chosen<T>(p, body);
        if (!sparse_)
            return for_dense_blocks<T>(p.chunk, d_, block_rows<T>(d_), body);
        for_sparse_blocks<T>(p.chunk, BLOCK_ROWS,
                             [&](const SparseBlock<T> &rows) { body(rows, rows.y, rows.n); });
    }

    template <class T, class Body> void each_chosen(const Piece &p, Body &&body) const {
        const T *rows[BLOCK_ROWS];
        GatheredTargets several;
        const tusk_shape shape = tusk_shape_of(&pass_->groups[p.chunk.group]);
        int gathered = 0;
        for (int64_t i = 0; i < p.chunk.rows; i++) {
            uint32_t offset;
            const tusk_segment *s = finder_.find(p.chunk.group, open_->row[p.chosen + i], &offset);
            const Targets own = targets_of(s, shape).from(offset);
            if (sparse_) {
                body(SparseBlock<T>{tusk_row_starts(s) + offset, tusk_indices(s),
                                    (const T *)tusk_sparse_values(s), own, 1},
                     own, 1);
                continue;
            }
            rows[gathered] = (const T *)tusk_dense_values(s) + offset * d_;
            several.put(own, 1, gathered++);
            if (gathered == BLOCK_ROWS || i + 1 == p.chunk.rows) {
                body(Gathered<T>{rows}, several.get(shape.extras), gathered);
                gathered = 0;
            }
        }
    }

    const tk_pass *pass_;
    const tk_open *open_;
    const double *weights_, *shift_, *scale_;
    double *out_;
    int64_t d_, width_;
    bool curved_, weighted_, sparse_;
    Finder finder_;
    std::vector<StepWeights> of_rows_;
    PaddedWeights padded_;
    std::vector<double> partial_;
};

} // namespace
} // namespace tusk

int tk_open_pass(const tk_pass *pass, const tk_open *open, const double *weights,
                 const double *shift, const double *scale, int curvature, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return OpenPass(pass, open, weights, shift, scale, curvature, out).run<T>();
        });
    });
}
