// Trains the groups of a pass: small ones concurrently, a large one with all threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../shared/common/groups.hpp"
#include "epochs.hpp"

namespace tusk::fm {
namespace {

constexpr int64_t LARGE = 1 << 18; // entries of a group that is worth several threads
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();

// Weights by label.
struct Shares {
    double positive = 0, total = 0;
};

class Group {
public:
    Group(const tk_pass &pass, const tk_fm &fm, int64_t group, int threads, tusk_memory *memory)
        : fm_(fm), index_(group), all_threads_(threads), memory_(memory),
          machine_(fm, pass.groups[group].dim) {
        bool together = fm.lock_free && tusk_is_sparse(pass.groups[group].kind);
        double positive = pass.positive ? pass.positive[group] : 1;
        Rows rows = rows_of(pass.groups[group], positive);
        double rate = fm.learning_rate * shortened(rows);
        t_ = {&pass, &fm, std::move(rows), &units_, &machine_, together ? threads : 1, rate};
        if (fm.held && fm.held[group].n_rows)
            held_ = rows_of(fm.held[group], positive);
    }

    int run(double *numbers, double *history, tk_fm_trained *out) {
        int code = prepare();
        if (code)
            return code;
        *out = tk_fm_trained{NONE, NONE, NONE, NONE, 0, 0, TK_FM_DONE};
        if (!units_.finite) {
            out->ending = TK_FM_OUT_OF_RANGE;
            return TK_OK;
        }
        out->base_loss = begin_at_constant();
        code = best_memory();
        while (!code && out->epochs < fm_.epochs && out->ending == TK_FM_DONE)
            code = epoch(history, out);
        return code ? code : finish(numbers, out);
    }

private:
    // Factor of the step length.
    double shortened(const Rows &rows) const {
        double entries = (double)rows.entries() / (double)std::max<int64_t>(rows.group.n_rows, 1);
        return fm_.entries > 0 && entries > fm_.entries ? fm_.entries / entries : 1;
    }
    int64_t mark() const { return t_.pass->cancel_mark; }
    int64_t n_rows() const { return t_.rows.group.n_rows; }
    // A loss in the units of the labels.
    double unscaled(double loss) const {
        return fm_.loss == TK_FM_SQUARED ? loss * units_.label_scale * units_.label_scale : loss;
    }

    // Prepares rows and initial numbers in the units of the training.
    int prepare() {
        bool ones = false, held_ones = true;
        int code = join_repeated(t_.rows, all_threads_, mark(), &ones);
        if (!code && held_.group.n_rows)
            code = join_repeated(held_, all_threads_, mark(), &held_ones);
        units_.ones = ones && held_ones;
        code = code ? code : find_units(t_.rows, held_, fm_, memory_, mark(), &units_);
        if (code || !units_.finite)
            return code;
        code = put_into_units(t_.rows, units_, all_threads_, mark());
        if (!code && held_.group.n_rows)
            code = put_into_units(held_, units_, all_threads_, mark());
        code = code ? code : machine_.take(memory_);
        if (!code)
            draw(machine_, fm_, units_, all_threads_);
        return code;
    }

    int best_memory() { return held_.group.n_rows ? best_.take(memory_, machine_.size()) : TK_OK; }

    // Starts the bias at the best constant; returns its mean loss.
    double begin_at_constant() {
        if (fm_.loss == TK_FM_SQUARED) // for labels with mean 0 and deviation 1
            return units_.label_scale * units_.label_scale / 2;
        Shares s = shares();
        double p = s.positive / s.total;
        machine_.bias = (float)std::log(p / (1 - p));
        return -p * std::log(p) - (1 - p) * std::log1p(-p);
    }

    Shares shares() const {
        Shares s;
        for (const Piece &p : t_.rows.pieces) {
            Targets t = targets_of(p.segment, t_.rows.shape()).from(p.first);
            for (uint32_t i = 0; i < p.n; i++) {
                double weight = t.weight ? t.weight[i] : 1;
                s.total += weight;
                s.positive += t.y[i] == t_.rows.positive ? weight : 0;
            }
        }
        // Only held-out rows may have one of the classes.
        s.positive =
            std::clamp(s.positive, 0.5 * s.total / n_rows(), s.total - 0.5 * s.total / n_rows());
        return s;
    }

    int epoch(double *history, tk_fm_trained *out) {
        double loss = 0;
        int code = run_epoch(t_, out->epochs, &loss);
        if (code == TK_OUT_OF_TIME) {
            out->ending = TK_FM_LATE;
            return judge(out);
        }
        if (code)
            return code;
        history[out->epochs++] = unscaled(loss / (double)n_rows());
        if (!std::isfinite(loss)) {
            out->ending = TK_FM_DIVERGED;
            return TK_OK;
        }
        return judge(out);
    }

    // Evaluates held-out rows, if there are any.
    int judge(tk_fm_trained *out) {
        if (!held_.group.n_rows) {
            out->kept = out->epochs;
            return TK_OK;
        }
        double loss = 0;
        int code = sum_losses(t_, held_, false, all_threads_, &loss);
        loss = unscaled(loss / (double)held_.group.n_rows);
        if (code)
            return code;
        if (std::isnan(out->held_loss) || loss < out->held_loss) {
            out->held_loss = loss;
            out->kept = out->epochs;
            std::copy_n(machine_.block(0), machine_.size(), best_.data());
            best_bias_ = machine_.bias;
            has_best_ = true;
        } else if (out->ending == TK_FM_DONE && out->epochs - out->kept >= fm_.patience) {
            out->ending = TK_FM_PATIENCE;
        }
        return TK_OK;
    }

    int finish(double *numbers, tk_fm_trained *out) {
        if (has_best_) {
            std::copy_n(best_.data(), machine_.size(), machine_.block(0));
            machine_.bias = best_bias_;
        }
        double loss = 0;
        int code = sum_losses(t_, t_.rows, true, all_threads_, &loss);
        out->loss = unscaled(loss / (double)n_rows());
        if (!code)
            out->intercept = write(machine_, units_, all_threads_, numbers + fm_.place[index_]);
        return code;
    }

    const tk_fm &fm_;
    int64_t index_;
    int all_threads_;
    tusk_memory *memory_;
    Units units_;
    Machine machine_;
    Training t_;
    Rows held_;
    Charged<float> best_;
    float best_bias_ = 0;
    bool has_best_ = false;
};

int train(const tk_pass *pass, const tk_fm *fm, tusk_memory *memory, double *numbers,
          double *history, tk_fm_trained *trained) {
    std::vector<int64_t> small, large;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        if (fm->left_out && fm->left_out[g])
            continue;
        const tusk_group &group = pass->groups[g];
        int64_t entries =
            tusk_is_sparse(group.kind) ? tk_nonzeros(&group) : group.n_rows * (int64_t)group.dim;
        bool alone = pass->n_groups < pass->threads || entries >= LARGE;
        (alone ? large : small).push_back(g);
    }
    return train_groups(*pass, large, small, [&](int64_t g, int threads) {
        return Group(*pass, *fm, g, threads, memory)
            .run(numbers, history + g * fm->epochs, trained + g);
    });
}

} // namespace
} // namespace tusk::fm

int64_t tk_fm_bytes(const tk_fm *fm, int64_t d) {
    int64_t machine = tusk::fm::Machine(*fm, d).size() * (int64_t)sizeof(float);
    return machine * (fm->held ? 2 : 1) + 2 * d * (int64_t)sizeof(double);
}

int tk_train_fms(const tk_pass *pass, const tk_fm *fm, tusk_memory *memory, double *numbers,
                 double *history, tk_fm_trained *trained) {
    using namespace tusk;
    return code_of([&] { return fm::train(pass, fm, memory, numbers, history, trained); });
}
