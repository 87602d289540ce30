// Losses, gradient and curvature H = sum h_i z_i z_i' for D <= 64 features, by one block. Here
// z = ((x - shift) * scale, 1) and h_i = l''(m_i).
//
// 32 rows at a time are copied into shared memory by cp.async, the next 32 ahead. PARTS lanes
// share a row's margin and loss. Then the warps multiply by the tensor cores' m8n8k4 in double:
// with A = (h z, r)' and B = z, four rows add h_i z_i z_i' to the 8 x 8 tiles of H's lower
// triangle, and r_i z_i, the gradient, to one more row of it. For few features each warp has rows
// of its own and all TILES tiles, and no barrier is between its rows and the next; else (PARTS >
// 1) the warps share the rows and each has some of the tiles, so that all stay in registers.
//
// There are no atomic additions: the warps' sums are added in their order.

#define P (D + 1)
#define SIDE ((D + 9) / 8) // tiles across: D features, the intercept, the derivative r
#define TILES (SIDE * (SIDE + 1) / 2)
#define OWN ((TILES + PARTS - 1) / PARTS) // tiles per warp
#define WARPS (THREADS / 32)
#define TEAMS (WARPS / PARTS) // teams with separate rows
#define TEAM (32 * PARTS)
#define VEC (16 / (int)sizeof(T))
#define WHOLE (D % VEC == 0) // rows are whole units of 16 bytes
#define UNITS (WHOLE ? D / VEC : 1)
#define STRIDE (WHOLE ? (UNITS | 1) * VEC : D) // rows begin in different banks
#define TILE (32 * STRIDE)

// A block's shared memory: for each team, the curvature and the derivative of 32 rows, and two
// tiles of rows. When these are no longer used, `room` has TILES * 64 sums.
struct Panel {
    double *w, *shift, *scale, *of_rows, *room;

    __device__ explicit Panel(double *memory) {
        w = memory;
        shift = w + D;
        scale = shift + D;
        of_rows = scale + D;
        room = of_rows + 64 * TEAMS + (3 * D) % 2; // at a multiple of 16 bytes
    }
};

// The tensor cores' product: c (8 x 8, lane l has row l / 4, columns l % 4 * 2 and the next one)
// += a (8 x 4, lane l has row l / 4, column l % 4) times b (4 x 8, row l % 4, column l / 4).
__device__ inline void multiply_add(double *c, double a, double b) {
#ifndef TUSK_ON_CPU
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
#else
    tusk_multiply_add(c, a, b);
#endif
}

__device__ inline void await_team() {
#if PARTS > 1
    __syncthreads();
#else
    __syncwarp();
#endif
}

__device__ inline void copy_rows(T *to, const T *from, int q) {
#pragma unroll 4
    for (int u = q; u < 32 * D / VEC; u += TEAM)
        copy_async<16>(to + (WHOLE ? u / UNITS * STRIDE + u % UNITS * VEC : u * VEC),
                       from + u * VEC);
    end_of_copies();
}

// The features of a lane in the tiles, and their units. A scale of 0, of a constant feature, is
// replaced by 1.
struct Own {
    double shift[SIDE], scale[SIDE];

    __device__ explicit Own(const Panel &s) {
#pragma unroll
        for (int f = 0; f < SIDE; f++) {
            const int k = 8 * f + threadIdx.x % 32 / 4;
            shift[f] = k < D ? s.shift[k] : 0.0;
            scale[f] = k < D && s.scale[k] != 0.0 ? s.scale[k] : 1.0;
        }
    }
};

// Adds the products of 32 rows to the tiles that have this PART.
template <int PART>
__device__ inline void multiply(double (*c)[2], const T *x, const double *of_rows,
                                const Own &own) {
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int at = 0; at < 32; at += 4) {
        const int row = at + lane % 4;
        const double h = of_rows[row], r = of_rows[32 + row];
        double z[SIDE], a[SIDE];
#pragma unroll
        for (int f = 0; f < SIDE; f++) {
            const int k = 8 * f + lane / 4;
            if (8 * f + 7 < D)
                z[f] = ((double)x[row * STRIDE + k] - own.shift[f]) * own.scale[f];
            else if (k < D)
                z[f] = ((double)x[row * STRIDE + k] - own.shift[f]) * own.scale[f];
            else
                z[f] = k == D ? 1.0 : 0.0;
            a[f] = k == D + 1 ? r : h * z[f];
        }
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int j = 0; j <= i; j++)
                if ((i * (i + 1) / 2 + j) % PARTS == PART)
                    multiply_add(c[(i * (i + 1) / 2 + j) / PARTS], a[i], z[j]);
    }
}

// The offset of an entry of H's lower triangle, or of the row after it, among the tiles' sums.
__device__ inline int entry(int row, int column) {
    const int i = row / 8, j = column / 8;
    return 64 * (i * (i + 1) / 2 + j) + 8 * (row % 8) + column % 8;
}

// Adds up all warps' tiles, in the order of the warps, into `room`, and losses into `losses`.
__device__ inline void gather(const Panel &s, const double (*c)[2], double loss) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % PARTS;
    loss = sum_lanes(loss, 1, 32);
    __syncthreads();
    for (int team = 0; team < TEAMS; team++) {
        if (warp / PARTS == team) {
#pragma unroll
            for (int own = 0; own < OWN; own++) {
                const int tile = own * PARTS + part;
                if (tile < TILES) {
                    double *to = s.room + 64 * tile + 2 * lane;
                    to[0] = (team ? to[0] : 0.0) + c[own][0];
                    to[1] = (team ? to[1] : 0.0) + c[own][1];
                }
            }
        }
        if (team == 0 && lane == 0)
            s.of_rows[warp] = loss;
        __syncthreads();
    }
}

// The sums in the caller's layout: see add_up.
__device__ inline void write(const Panel &s, int n_rows, double *to) {
    const double slope = s.room[entry(D + 1, D)];
    if (threadIdx.x == 0) {
        double loss = 0.0;
        for (int warp = 0; warp < WARPS; warp++)
            loss += s.of_rows[warp];
        to[0] = loss;
        to[1] = (double)n_rows;
        to[2 + D] = slope;
    }
    for (int k = threadIdx.x; k < D; k += THREADS) {
        const double scale = s.scale[k] != 0.0 ? s.scale[k] : 1.0;
        to[2 + k] = s.room[entry(D + 1, k)] / scale + s.shift[k] * slope;
    }
    for (int e = threadIdx.x; e < 64 * TILES; e += THREADS) {
        const int tile = e / 64;
        int i = 0;
        while ((i + 1) * (i + 2) / 2 <= tile)
            i++;
        const int row = 8 * i + e % 64 / 8, column = 8 * (tile - i * (i + 1) / 2) + e % 8;
        if (row >= P || column > row)
            continue;
        const bool fixed =
            (row < D && s.scale[row] == 0.0) || (column < D && s.scale[column] == 0.0);
        to[D + 3 + row * (row + 1) / 2 + column] = fixed ? 0.0 : s.room[e];
    }
}

// Writes sums over n_rows rows to `to` (D + 3 + P (P + 1) / 2,) in the caller's layout: loss,
// rows, gradient, gradient of the intercept, H's lower triangle. w, shift and scale must be set
// before. All threads may read `to` after the next barrier.
__device__ inline void add_up(const Panel &s, const T *values, const double *labels, int n_rows,
                              const Labels &meaning, double intercept, double *to) {
    const int team = threadIdx.x / TEAM, q = threadIdx.x % TEAM, mine = q / PARTS;
    const int n_tiles = (n_rows + 31) / 32;
    T *tiles = (T *)s.room + 2 * TILE * team;
    double *of_rows = s.of_rows + 64 * team, c[OWN][2], loss = 0.0;
#pragma unroll
    for (int k = 0; k < OWN; k++)
        c[k][0] = c[k][1] = 0.0;
    __syncthreads();
    const Own own(s);
    if (team < n_tiles)
        copy_rows(tiles, values + (int64)team * 32 * D, q);
    double next_label = 32 * team + mine < n_rows ? labels[32 * team + mine] : 0.0;

    int stage = 0;
    for (int t = team; t < n_tiles; t += TEAMS) {
        const int next = t + TEAMS, left = n_rows - 32 * t;
        const double y = next_label;
        T *x = tiles + stage * TILE;
        if (next < n_tiles)
            copy_rows(tiles + (1 - stage) * TILE, values + (int64)next * 32 * D, q);
        else
            end_of_copies();
        next_label = 32 * next + mine < n_rows ? labels[32 * next + mine] : 0.0;
        await_copies<1>();
        await_team();
        if (left < 32) { // rows beyond the chunk belong to others
            for (int e = left * STRIDE + q; e < TILE; e += TEAM)
                x[e] = (T)0;
            await_team();
        }
        double m = 0.0, odd = 0.0; // two sums, to avoid a chain of dependent additions
        const T *row = x + mine * STRIDE;
#pragma unroll 8
        for (int k = q % PARTS; k + PARTS < D; k += 2 * PARTS) {
            m += (double)row[k] * s.w[k];
            odd += (double)row[k + PARTS] * s.w[k + PARTS];
        }
        const int last = D - 1 - (D - 1 - q % PARTS) % (2 * PARTS);
        if (q % PARTS < D && last + PARTS >= D)
            m += (double)row[last] * s.w[last];
        m = sum_lanes(m + odd, 1, PARTS);
        const LossValues v = evaluate(meaning, m + intercept, y);
        if (q % PARTS == 0) {
            loss += mine < left ? v.loss : 0.0;
            of_rows[mine] = mine < left ? v.curvature : 0.0;
            of_rows[32 + mine] = mine < left ? v.derivative : 0.0;
        }
        await_team();
#if PARTS > 1
        switch (threadIdx.x / 32 % PARTS) {
        case 0:
            multiply<0>(c, x, of_rows, own);
            break;
        case 1:
            multiply<1>(c, x, of_rows, own);
            break;
        case 2:
            multiply<2>(c, x, of_rows, own);
            break;
        default:
            multiply<3>(c, x, of_rows, own);
        }
#else
        multiply<0>(c, x, of_rows, own);
#endif
        await_team();
        stage = 1 - stage;
    }
    await_copies<0>();
    gather(s, c, loss);
    write(s, n_rows, to);
}
