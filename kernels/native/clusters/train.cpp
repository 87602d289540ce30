// Trains the centres of the groups of a pass: small ones concurrently, a large one with all
// threads.
#include <cmath>
#include <limits>
#include <numeric>

#include "../rows/row_hash.hpp"
#include "../shared/common/groups.hpp"
#include "passes.hpp"

namespace tusk::clusters {
namespace {

constexpr int64_t LARGE = 1 << 16;             // count of numbers from which several threads share
                                               // a group
constexpr int64_t SAMPLE = 1 << 14, EACH = 32; // rows among which starts are drawn, in total and
                                               // for each centre, unless there are fewer
constexpr int64_t SAMPLE_ITERATIONS = 100;
constexpr double MOST_VALUE = 1e150, LEAST_VALUE = 1e-140; // squares of others are not finite
                                                           // doubles
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();

// Uniform draws that depend on the seed and the number of the start alone.
class Draws {
public:
    Draws(uint64_t seed, uint64_t start) : state_(mix(seed ^ 0x9e3779b97f4a7c15u, start + 1)) {}
    // The index of the first of rising sums above a uniform fraction of the last one.
    int64_t from(const double *sums, int64_t n) {
        state_ += 0x9e3779b97f4a7c15u;
        double share = (double)(mix(state_, 0xbf58476d1ce4e5b9u) >> 11) * 0x1p-53;
        const double *found = std::upper_bound(sums, sums + n, share * sums[n - 1]);
        return std::min(found - sums, n - 1);
    }

private:
    uint64_t state_;
};

// State of a training, or its result.
struct Found {
    Charged<double> numbers; // centres (k, d), and the weights of their rows (k,)
    std::vector<double> history;
    double loss = std::numeric_limits<double>::infinity();
    int64_t iterations = 0, ending = TK_CLUSTERS_ITERATIONS;

    const double *centre(int64_t j, int64_t d) const { return numbers.data() + j * d; }
};

class Group {
public:
    Group(const tk_pass &pass, const tk_clusters &how, int64_t group, int threads,
          tusk_memory *memory)
        : pass_(pass), how_(how), group_(pass.groups[group]), index_(group), threads_(threads),
          memory_(memory), passes_(pass, points_, threads) {}

    int run(double *numbers, double *history, tk_clustered *out) {
        *out = tk_clustered{NONE, 0, 0, 0, 0, how_.algorithm, TK_CLUSTERS_OUT_OF_RANGE};
        int code = points_.read(pass_, group_, how_.seed, threads_, memory_);
        out->distinct = points_.n;
        bool out_of_range =
            points_.largest > MOST_VALUE || (points_.largest > 0 && points_.largest < LEAST_VALUE);
        if (code || out_of_range)
            return code;
        code = how_.standardize ? points_.standardize(&units_, memory_) : TK_OK;
        code = code ? code : prepare();
        if (!code && points_.n <= how_.clusters)
            take_rows(out);
        else if (!code)
            code = train(out);
        if (!code && best_->ending != TK_CLUSTERS_OUT_OF_RANGE)
            write(numbers + how_.place[index_], history + index_ * TK_CLUSTERS_POINTS, out);
        return code;
    }

private:
    // Allocates memory, and sets limits that depend on the number of rows.
    int prepare() {
        k_ = std::min<int64_t>(how_.clusters, points_.n);
        sample_ = std::min(points_.n, std::max(SAMPLE, EACH * k_));
        batches_ = how_.algorithm == TK_CLUSTERS_AUTO ? points_.n > TK_CLUSTERS_LARGE
                                                      : how_.algorithm == TK_CLUSTERS_MINIBATCH;
        batches_ = batches_ && points_.n > sample_;
        epsilon_ = how_.epsilon >= 0 ? how_.epsilon : batches_ ? 1e-6 : 0;
        tries_ = 2 + (int64_t)std::log((double)k_);
        total_ = std::accumulate(points_.weight(), points_.weight() + points_.n, 0.0);
        int64_t size = k_ * (points_.d + 1);
        int code = centres_.take(memory_, k_, points_.d);
        code = code ? code : best_->numbers.take(memory_, (size_t)size);
        code = code ? code : now_->numbers.take(memory_, (size_t)size);
        if (code || points_.n <= how_.clusters)
            return code;
        code = passes_.take(memory_, k_);
        code = code ? code : tried_.take(memory_, tries_, points_.d);
        return code ? code : drawn_.take(memory_, (size_t)(sample_ * (2 + (tries_ + 7) / 8 * 8)));
    }

    // Makes each distinct row a centre.
    void take_rows(tk_clustered *out) {
        for (int64_t i = 0; i < k_; i++) {
            copy_row(i, best_->numbers.data() + i * points_.d);
            best_->numbers.data()[k_ * points_.d + i] = points_.weight()[i];
        }
        best_->loss = 0;
        best_->history = {0.0};
        best_->ending = points_.n < how_.clusters ? TK_CLUSTERS_FEW : TK_CLUSTERS_FIXED;
        out->starts = 1;
        out->algorithm = TK_CLUSTERS_LLOYD;
    }

    int train(tk_clustered *out) {
        out->algorithm = batches_ ? TK_CLUSTERS_MINIBATCH : TK_CLUSTERS_LLOYD;
        const int64_t rows = batches_ ? sample_ : points_.n;
        const int64_t most = batches_ ? SAMPLE_ITERATIONS : how_.max_iter;
        const int64_t starts = k_ > 1 ? how_.starts : 1;
        bool late = false;
        for (int64_t s = 0; s < starts && !late; s++) {
            int code = draw((uint64_t)s);
            code = code ? code : lloyd(rows, most, s == 0);
            if (code)
                return code;
            late = now_->ending == TK_CLUSTERS_LATE;
            out->starts += !late;
            if (!s || (!late && now_->loss < best_->loss))
                std::swap(now_, best_);
            if (best_->ending == TK_CLUSTERS_OUT_OF_RANGE)
                return TK_OK;
        }
        if (batches_) {
            int code = run_batches();
            code = code ? code : lloyd(points_.n, how_.max_iter, true);
            if (code)
                return code;
            std::swap(now_, best_);
        }
        best_->ending = late ? (int64_t)TK_CLUSTERS_LATE : best_->ending;
        return TK_OK;
    }

    template <class T> void copy_row_of(int64_t row, double *to) const {
        const T *x = points_.values<T>();
        if (!points_.sparse) {
            std::copy_n(x + row * points_.d, points_.d, to);
            return;
        }
        std::fill_n(to, points_.d, 0.0);
        for (int64_t e = points_.start()[row]; e < points_.start()[row + 1]; e++)
            to[points_.id()[e]] = (double)x[e];
    }
    void copy_row(int64_t row, double *to) const {
        points_.f64 ? copy_row_of<double>(row, to) : copy_row_of<float>(row, to);
    }

    // --- starts ---

    // Draws the first centres among the rows of the sample.
    int draw(uint64_t start) {
        double *sums = drawn_.data(), *closest = sums + sample_, *found = closest + sample_;
        Draws draws(how_.seed, start);
        std::partial_sum(points_.weight(), points_.weight() + sample_, sums);
        copy_row(draws.from(sums, sample_), centres_.of(0));
        std::copy_n(centres_.of(0), points_.d, tried_.of(0));
        int code = measure(1, found);
        for (int64_t i = 0; i < sample_ && !code; i++)
            closest[i] = found[i * tried_.padded()];
        for (int64_t j = 1; j < k_ && !code; j++) {
            double sum = 0;
            for (int64_t i = 0; i < sample_; i++)
                sums[i] = sum += points_.weight()[i] * closest[i];
            for (int64_t l = 0; l < tries_; l++)
                copy_row(draws.from(sums, sample_), tried_.of(l));
            code = measure(tries_, found);
            if (code)
                break;
            int64_t best = best_try(found, closest);
            std::copy_n(tried_.of(best), points_.d, centres_.of(j));
            for (int64_t i = 0; i < sample_; i++)
                closest[i] = std::min(closest[i], found[i * tried_.padded() + best]);
        }
        if (code != TK_OUT_OF_TIME)
            return code;
        for (int64_t j = 0; j < k_; j++) // arbitrary distinct rows, since there is no time to draw
                                         // them
            copy_row(j, centres_.of(j));
        return TK_OK;
    }

    int measure(int64_t count, double *out) {
        tried_.lay_out(count, points_);
        return passes_.measure(tried_, sample_, out);
    }

    // The candidate that leaves the least sum of squared distances.
    int64_t best_try(const double *found, const double *closest) const {
        std::vector<double> left((size_t)tries_, 0.0);
        for (int64_t i = 0; i < sample_; i++)
            for (int64_t l = 0; l < tries_; l++)
                left[(size_t)l] +=
                    points_.weight()[i] * std::min(closest[i], found[i * tried_.padded() + l]);
        return std::min_element(left.begin(), left.end()) - left.begin();
    }

    // --- iterations ---

    // Lloyd's iterations on the first n rows from the current centres; `now_` has the last one
    // whose pass ended. first: whether the first pass runs regardless of the time.
    int lloyd(int64_t n, int64_t most, bool first) {
        now_->history.clear();
        now_->iterations = 0;
        now_->loss = std::numeric_limits<double>::infinity();
        now_->ending = TK_CLUSTERS_ITERATIONS;
        std::fill_n(passes_.nearest(), n, NOWHERE);
        const double total = n == points_.n ? total_ : weight_of(n);
        for (int64_t it = 0; it < most; it++) {
            Sums sums;
            centres_.lay_out(k_, points_);
            int code = passes_.run(centres_, 0, n, first && it == 0, &sums);
            if (code == TK_OUT_OF_TIME) {
                now_->ending = TK_CLUSTERS_LATE;
                return TK_OK;
            }
            if (code)
                return code;
            double before = now_->loss;
            keep(sums, total);
            if (!std::isfinite(now_->loss)) {
                now_->ending = TK_CLUSTERS_OUT_OF_RANGE;
                return TK_OK;
            }
            double fall = before - now_->loss;
            bool fixed = sums.changed == 0 || fall <= 0, moved = false;
            if (sums.changed == 0 && n <= SAMPLE && it + 1 < most)
                code = exchange(n, sums.weight, &moved);
            if (code)
                return code;
            if (moved)
                continue;
            if (fixed || fall <= epsilon_ * now_->loss) {
                now_->ending = fixed ? TK_CLUSTERS_FIXED : TK_CLUSTERS_TOLERANCE;
                return TK_OK;
            }
            refill(n, &sums);
            move(sums, nullptr);
        }
        return TK_OK;
    }

    double weight_of(int64_t n) const {
        return std::accumulate(points_.weight(), points_.weight() + n, 0.0);
    }

    void keep(const Sums &sums, double total) {
        std::copy_n(centres_.of(0), k_ * points_.d, now_->numbers.data());
        std::copy_n(sums.weight, k_, now_->numbers.data() + k_ * points_.d);
        now_->loss = sums.loss / total;
        now_->history.push_back(now_->loss);
        now_->iterations++;
    }

    // Moves centres to the means of their rows; before: weights of earlier rows in the centres'
    // means, (k,), which count likewise; NULL: none.
    void move(const Sums &sums, double *before) {
        for (int64_t j = 0; j < k_; j++) {
            const double *moved = sums.moved + j * points_.d;
            double *centre = centres_.of(j), own = sums.weight[j];
            double all = own + (before ? before[j] : 0);
            if (!(own > 0))
                continue;
            for (int64_t i = 0; i < points_.d; i++) {
                bool raw = points_.sparse && points_.lacking()[i] != 0;
                if (raw) // the sum of weight * (x - centre), from that of weight * x
                    centre[i] += (moved[i] - own * centre[i]) / all;
                else
                    centre[i] += moved[i] / all;
            }
            if (before)
                before[j] = all;
        }
    }

    // Moves single rows to other centres if the loss falls after both centres have moved too,
    // which in small groups improves on centres that are the nearest of all their rows (Telgarsky
    // and Vattani, Hartigan's method: k-means clustering without Voronoi, AISTATS 2010).
    int exchange(int64_t n, double *weight, bool *moved) {
        std::vector<double> found((size_t)centres_.padded()), row((size_t)points_.d);
        for (int64_t i = 0; i < n; i++) {
            if (i % 64 == 0 && cancelled(pass_.cancel_mark))
                return TK_CANCELLED;
            const double own = points_.weight()[i];
            const int64_t from = passes_.nearest()[i];
            const double rest = weight[from] - own;
            if (!(rest > 1e-9 * weight[from])) // it is the only row
                continue;
            passes_.measure_row(centres_, i, found.data());
            int64_t to = from;
            double least = weight[from] / rest * found[(size_t)from] * (1 - 1e-9);
            for (int64_t j = 0; j < k_; j++) {
                double joined = weight[j] / (weight[j] + own) * found[(size_t)j];
                if (j != from && joined < least) {
                    least = joined;
                    to = j;
                }
            }
            if (to == from)
                continue;
            copy_row(i, row.data());
            double *left = centres_.of(from), *joined = centres_.of(to);
            for (int64_t j = 0; j < points_.d; j++) {
                left[j] -= own / rest * (row[(size_t)j] - left[j]);
                joined[j] += own / (weight[to] + own) * (row[(size_t)j] - joined[j]);
            }
            weight[from] = rest;
            weight[to] += own;
            centres_.lay_out_one(from, points_);
            centres_.lay_out_one(to, points_);
            passes_.nearest()[i] = (int32_t)to;
            *moved = true;
        }
        return TK_OK;
    }

    // Moves each centre without rows to the row that is farthest from its centre, which loses it.
    void refill(int64_t n, Sums *sums) {
        std::vector<int64_t> rows;
        for (int64_t j = 0; j < k_; j++) {
            if (sums->weight[j] > 0)
                continue;
            if (rows.empty()) {
                rows.assign((size_t)k_, 0);
                for (int64_t i = 0; i < n; i++)
                    rows[(size_t)passes_.nearest()[i]]++;
            }
            int64_t far = -1;
            for (int64_t i = 0; i < n; i++)
                if (rows[(size_t)passes_.nearest()[i]] > 1 &&
                    (far < 0 || passes_.distance()[i] > passes_.distance()[far]))
                    far = i;
            rows[(size_t)passes_.nearest()[far]]--;
            rows[(size_t)j] = 1;
            give(far, passes_.nearest()[far], j, sums);
        }
    }

    void give(int64_t row, int64_t from, int64_t to, Sums *sums) {
        const double weight = points_.weight()[row];
        double *centre = centres_.of(to), *lost = sums->moved + from * points_.d;
        double *gained = sums->moved + to * points_.d;
        copy_row(row, centre);
        for (int64_t i = 0; i < points_.d; i++) {
            bool raw = points_.sparse && points_.lacking()[i] != 0;
            lost[i] -= weight * (raw ? centre[i] : centre[i] - centres_.of(from)[i]);
            gained[i] = raw ? weight * centre[i] : 0;
        }
        sums->weight[from] -= weight;
        sums->weight[to] = weight;
        passes_.nearest()[row] = (int32_t)to;
        passes_.distance()[row] = 0;
    }

    // Moves the centres of the best start by the means of batches, once over the other rows.
    int run_batches() {
        std::copy_n(best_->numbers.data(), k_ * points_.d, centres_.of(0));
        std::vector<double> before(best_->numbers.data() + k_ * points_.d,
                                   best_->numbers.data() + k_ * (points_.d + 1));
        for (int64_t at = sample_, some; at < points_.n; at += some) {
            some = std::min<int64_t>(how_.batch_size, points_.n - at);
            Sums sums;
            centres_.lay_out(k_, points_);
            int code = passes_.run(centres_, at, some, false, &sums);
            if (code)
                return code == TK_OUT_OF_TIME ? TK_OK : code;
            move(sums, before.data());
        }
        return TK_OK;
    }

    // --- the result ---

    void write(double *numbers, double *history, tk_clustered *out) const {
        const int64_t d = points_.d;
        const double *weight = best_->numbers.data() + k_ * d;
        std::vector<int64_t> order((size_t)k_);
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            if (weight[a] != weight[b])
                return weight[a] > weight[b];
            const double *x = best_->centre(a, d), *y = best_->centre(b, d);
            return std::lexicographical_compare(x, x + d, y, y + d);
        });
        if (how_.standardize)
            numbers = std::copy_n(units_.scale, d, numbers);
        for (int64_t j : order) {
            *numbers++ = weight[j] * points_.unit;
            for (int64_t i = 0; i < d; i++) {
                double x = best_->centre(j, d)[i];
                *numbers++ = how_.standardize ? units_.shift[i] + x / units_.scale[i] : x;
            }
        }
        int64_t n = (int64_t)best_->history.size(),
                points = std::min<int64_t>(n, TK_CLUSTERS_POINTS);
        for (int64_t i = 0; i < points; i++) {
            double at = points > 1 ? (double)i * (double)(n - 1) / (double)(points - 1) : 0;
            history[i] = best_->history[(size_t)std::llround(at)];
        }
        out->loss = best_->loss;
        out->centres = k_;
        out->iterations = best_->iterations;
        out->ending = best_->ending;
    }

    const tk_pass &pass_;
    const tk_clusters &how_;
    const tusk_group &group_;
    int64_t index_;
    int threads_;
    tusk_memory *memory_;
    Points points_;
    Units units_;
    Passes passes_;
    Centres centres_, tried_;
    Charged<double> drawn_; // sums of weights, distances to the nearest and to each candidate
    Found found_[2];
    Found *now_ = found_, *best_ = found_ + 1;
    int64_t k_ = 0, sample_ = 0, tries_ = 0;
    double epsilon_ = 0, total_ = 0;
    bool batches_ = false;
};

int train(const tk_pass *pass, const tk_clusters *how, tusk_memory *memory, double *numbers,
          double *history, tk_clustered *out) {
    std::vector<int64_t> small, large;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        const tusk_group &group = pass->groups[g];
        int64_t size =
            tusk_is_sparse(group.kind) ? tk_nonzeros(&group) : group.n_rows * (int64_t)group.dim;
        bool alone = pass->n_groups < pass->threads || size >= LARGE;
        (alone ? large : small).push_back(g);
    }
    return train_groups(*pass, large, small, [&](int64_t g, int threads) {
        return Group(*pass, *how, g, threads, memory).run(numbers, history, out + g);
    });
}

} // namespace
} // namespace tusk::clusters

int tk_train_clusters(const tk_pass *pass, const tk_clusters *clusters, tusk_memory *memory,
                      double *numbers, double *history, tk_clustered *out) {
    using namespace tusk;
    return code_of([&] { return clusters::train(pass, clusters, memory, numbers, history, out); });
}
