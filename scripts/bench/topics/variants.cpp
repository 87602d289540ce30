// Other samplers of topics, for scripts/bench/topics/topic_variants.py: one thread each.
//
// mode 0, F+LDA: word by word, exact. p(k) ~ beta q_k + n_kw q_k of a document's topics instead:
//   alpha q_k by an F+ tree and n_dk q_k by the document's list, q_k = (n_kw + beta) / (n_k + W
//   beta) (H.-F. Yu et al., A scalable asynchronous distributed algorithm for topic modeling, WWW
//   2015, section 3).
// mode 1, LightLDA: proposals of the document and of the word in turn, the latter from an alias
//   table that is as old as the last sweep, accepted by Metropolis-Hastings (J. Yuan et al., WWW
//   2015, section 3; tables: A. Walker 1977, M. Vose 1991).
#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

struct Random {
    uint64_t state;
    uint64_t bits() {
        uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
    }
    double unit() { return (double)(bits() >> 11) * 0x1p-53; }
    uint32_t below(uint32_t n) { return (uint32_t)((bits() >> 32) * n >> 32); }
};

// Sums of pairs up to the root, node 1; leaf k is node `leaves` + k.
struct Tree {
    int32_t leaves = 1;
    std::vector<double> node;
    explicit Tree(int32_t n) {
        while (leaves < n)
            leaves *= 2;
        node.assign(2 * leaves, 0);
    }
    double &leaf(int32_t k) { return node[leaves + k]; }
    void build() {
        for (int32_t i = leaves - 1; i; i--)
            node[i] = node[2 * i] + node[2 * i + 1];
    }
    void set(int32_t k, double value) {
        double change = value - leaf(k);
        for (int32_t i = leaves + k; i; i /= 2)
            node[i] += change;
    }
    int32_t find(double r) const {
        int32_t i = 1;
        while (i < leaves) {
            i *= 2;
            if (r >= node[i])
                r -= node[i++];
        }
        return i - leaves;
    }
};

struct Alias {
    std::vector<float> keep;
    std::vector<uint16_t> other;
    std::vector<double> weight, scaled;
    std::vector<int32_t> small, large;
    void build(int32_t n) {
        keep.resize(n), other.resize(n), scaled = weight;
        small.clear(), large.clear();
        double sum = 0;
        for (double w : weight)
            sum += w;
        for (int32_t k = 0; k < n; k++) {
            scaled[k] *= n / sum;
            (scaled[k] < 1 ? small : large).push_back(k);
            keep[k] = 1, other[k] = (uint16_t)k;
        }
        while (!small.empty() && !large.empty()) {
            int32_t s = small.back(), l = large.back();
            small.pop_back();
            keep[s] = (float)scaled[s], other[s] = (uint16_t)l;
            scaled[l] -= 1 - scaled[s];
            if (scaled[l] < 1)
                large.pop_back(), small.push_back(l);
        }
    }
    int32_t draw(Random &random) const {
        uint32_t k = random.below((uint32_t)keep.size());
        return random.unit() < keep[k] ? (int32_t)k : other[k];
    }
};

struct State {
    int64_t tokens, documents;
    int32_t words, topics;
    double alpha, beta;
    const int32_t *word, *document;
    const int64_t *start, *of_word, *order; // tokens of documents; of words, in `order`
    uint16_t *topic;
    int32_t *n_kw, *n_k; // (words, topics), (topics,)
    uint64_t seed;
    double q(int32_t w, int32_t k) const {
        return (n_kw[(int64_t)w * topics + k] + beta) / (n_k[k] + beta * words);
    }
    void count(int32_t w, int32_t k, int32_t by) {
        n_kw[(int64_t)w * topics + k] += by, n_k[k] += by;
    }
};

// The topics of documents as short lists: topic and number.
using Lists = std::vector<std::vector<std::pair<uint16_t, int32_t>>>;
void move(std::vector<std::pair<uint16_t, int32_t>> &list, int32_t k, int32_t by) {
    auto at = std::find_if(list.begin(), list.end(), [&](auto &one) { return one.first == k; });
    if (at == list.end())
        list.emplace_back((uint16_t)k, by);
    else if (!(at->second += by))
        *at = list.back(), list.pop_back();
}

void by_tree(State &s, Lists &lists, Random &random) {
    Tree tree(s.topics);
    for (int32_t k = 0; k < s.topics; k++)
        tree.leaf(k) = s.beta / (s.n_k[k] + s.beta * s.words);
    tree.build();
    std::vector<double> ends;
    for (int32_t w = 0; w < s.words; w++) {
        const int32_t *row = s.n_kw + (int64_t)w * s.topics;
        for (int32_t k = 0; k < s.topics; k++)
            if (row[k])
                tree.set(k, s.q(w, k));
        for (int64_t i = s.of_word[w]; i < s.of_word[w + 1]; i++) {
            int64_t token = s.order[i];
            auto &list = lists[s.document[token]];
            int32_t old = s.topic[token];
            s.count(w, old, -1), move(list, old, -1), tree.set(old, s.q(w, old));
            double listed = 0;
            ends.clear();
            for (auto [k, n] : list)
                ends.push_back(listed += n * tree.leaf(k));
            double r = random.unit() * (listed + s.alpha * tree.node[1]);
            int32_t k =
                r < listed
                    ? list[std::upper_bound(ends.begin(), ends.end(), r) - ends.begin()].first
                    : std::min(tree.find((r - listed) / s.alpha), s.topics - 1);
            s.count(w, k, 1), move(list, k, 1), tree.set(k, s.q(w, k));
            s.topic[token] = (uint16_t)k;
        }
        for (int32_t k = 0; k < s.topics; k++)
            if (row[k] || tree.leaf(k) != s.beta / (s.n_k[k] + s.beta * s.words))
                tree.set(k, s.beta / (s.n_k[k] + s.beta * s.words));
    }
}

void build(const State &s, std::vector<Alias> &tables) {
    for (int32_t w = 0; w < s.words; w++) {
        Alias &table = tables[w];
        table.weight.resize(s.topics);
        for (int32_t k = 0; k < s.topics; k++)
            table.weight[k] = s.q(w, k);
        if (s.of_word[w] < s.of_word[w + 1])
            table.build(s.topics);
        table.scaled = {};
    }
}

void by_proposals(State &s, int32_t steps, Random &random, std::vector<Alias> &tables) {
    build(s, tables);
    std::vector<int32_t> n_d(s.topics);
    for (int64_t d = 0; d < s.documents; d++) {
        int64_t from = s.start[d], n = s.start[d + 1] - from;
        std::fill(n_d.begin(), n_d.end(), 0);
        for (int64_t i = 0; i < n; i++)
            n_d[s.topic[from + i]]++;
        for (int64_t i = from; i < from + n; i++) {
            const int32_t w = s.word[i], own = s.topic[i];
            const Alias &table = tables[w];
            // Counts without this token. The document's proposal is of counts with it.
            auto p = [&](int32_t k) {
                int32_t less = k == own;
                return (n_d[k] - less + s.alpha) *
                       (s.n_kw[(int64_t)w * s.topics + k] - less + s.beta) /
                       (s.n_k[k] - less + s.beta * s.words);
            };
            int32_t now = own;
            for (int32_t step = 0; step < steps; step++) {
                int32_t next = table.draw(random);
                double ratio = p(next) * table.weight[now] / (p(now) * table.weight[next]);
                if (next != now && random.unit() < ratio)
                    now = next;
                double r = random.unit() * ((double)n + s.alpha * s.topics);
                next = r < (double)n ? s.topic[from + (int64_t)r]
                                     : (int32_t)random.below((uint32_t)s.topics);
                ratio = p(next) * (n_d[now] + s.alpha) / (p(now) * (n_d[next] + s.alpha));
                if (next != now && random.unit() < ratio)
                    now = next;
            }
            if (now == own)
                continue;
            s.count(w, own, -1), s.count(w, now, 1);
            n_d[own]--, n_d[now]++;
            s.topic[i] = (uint16_t)now;
        }
    }
}

} // namespace

extern "C" void sweep(State *state, int32_t mode, int32_t sweeps) {
    State &s = *state;
    Random random{s.seed};
    if (mode == 0) {
        Lists lists(s.documents);
        for (int64_t i = 0; i < s.tokens; i++)
            move(lists[s.document[i]], s.topic[i], 1);
        for (int32_t i = 0; i < sweeps; i++)
            by_tree(s, lists, random);
    } else {
        std::vector<Alias> tables(s.words);
        for (int32_t i = 0; i < sweeps; i++)
            by_proposals(s, mode, random, tables);
    }
    s.seed = random.bits();
}
