// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure stall information: from per-CPU times to totals and averages
 *
 * Pressure of a window
 *   Tasks on one CPU can only lose work that this CPU could have done. So the
 *   pressure of a group in a window is the mean of its per-CPU times t_s[c] in
 *   a state, weighted with the time w[c] that it used or wanted the CPU:
 *	T_s = sum_c(t_s[c] * w[c]) / sum_c(w[c]),	w[c] = t_nonidle[c]
 *
 *   psi_mean_add() adds one CPU at a time, T += (t - T) * w / (W + w), in ns:
 *   no bits are lost, and each CPU rounds by less than 2 ns.
 *
 * Averages
 *   An average is fed once per PSI_PERIOD with the share of that period that
 *   was stall: avg = avg * e + share * (1 - e). Periods end at multiples of
 *   PSI_PERIOD on psi_read_clock(); folds run later, by varying times.
 *   psi_avgs_advance() takes the stall of a window as spread evenly over it,
 *   and splits it where periods end; equal periods are fed in closed form:
 *	n periods of share p:	avg = p + (avg - p) * e^n
 *
 *   A share is at most 1. The stall above that, and the remainder of a
 *   division, are kept for the next period: none appears or is lost.
 */

#define PSI_PERIOD		(2ULL * NSEC_PER_SEC)

/*
 * Averages are fractions of 2^31: a product with a factor of 2^32 stays below
 * 2^63, and rounding in every period adds up to less than 1e-7 in the slowest.
 */
#define PSI_AVG_SHIFT		31
#define PSI_AVG_ONE		BIT(PSI_AVG_SHIFT)

/* exp(-2s/10s), exp(-2s/60s), exp(-2s/300s) in units of 2^-32 */
static const u64 psi_decay[PSI_NR_HORIZONS] = { 3516421809U, 4154161520U, 4266429413U };

/* Arithmetic: no clock, no locks, all inputs are arguments */

/* a * b / c, rounded down, for a product of up to 128 bits; 0 if a is */
static u64 psi_muldiv(u64 a, u64 b, u64 c)
{
	return a && b ? mul_u64_u64_div_u64(a, b, c) : 0;
}

/* Add a CPU, whose @time weighs @w, to @mean, of CPUs that weigh @weight. */
static __always_inline u64 psi_mean_with(u64 mean, u64 weight, u64 time, u64 w)
{
	return psi_muldiv(mean, weight, weight + w) + psi_muldiv(time, w, weight + w);
}

/* Add the times of one CPU, in ns, to the mean of those before. */
static __always_inline void psi_mean_add(struct psi_look *look,
					 const u64 *times, unsigned int states)
{
	u64 w = times[PSI_NONIDLE];
	unsigned long s;

	if (!w)
		return;
	/* Mostly there is one. */
	if (!look->weight)
		memcpy(look->stall, times, sizeof(look->stall));
	else
		psi_for_each_state(s, states)
			look->stall[s] = psi_mean_with(look->stall[s], look->weight, times[s], w);
	look->weight += w;
}

/* Add it to the sums, too. What is stalled on a CPU was in use there. */
static void psi_sums_add(struct psi_look *look,
			 const struct psi_asked_cpu *more,
			 const u64 *since, const u64 *held)
{
	u64 w = since[PSI_NONIDLE];
	int s, i;

	psi_for_each_state(s, look->states)
		look->sum[s] += min(since[s], w);
	look->most = max(look->most, w);
	for (i = 0; i < PSI_NR_HELD; i++) {
		/* If the CPU joins the list anew, a reader retries. */
		look->held[i] += held[i] - data_race(more->base[i]);
	}
}

/* Exact pressure of @sum. But for differences of clocks, @used is in range. */
static u64 psi_sums_share(const struct psi_look *look, u64 sum, u64 used)
{
	used = clamp(used, look->most, look->weight);
	return psi_muldiv(sum, used, look->weight);
}

/* When the period or step that runs at @now ends: at a multiple of @step. */
static __always_inline u64 psi_next_mark(u64 now, u64 step)
{
	return (div64_u64(now, step) + 1) * step;
}

/* factor^n in units of 2^-32, for a factor below 1 */
static u64 psi_pow(u64 factor, u64 n)
{
	u64 square = factor, result = 1ULL << 32;

	for (; n && result; n >>= 1) {
		if (n & 1)
			result = (result * square) >> 32;
		square = (square * square) >> 32;
	}
	return result;
}

/*
 * @share is in units of 1 / PSI_AVG_ONE, @keep of 2^-32. Rounds to the nearest,
 * but down if @share is zero, so that the average reaches zero.
 */
static u32 psi_feed(u32 avg, u32 share, u64 keep)
{
	u64 one = 1ULL << 32;

	return (avg * keep + share * (one - keep) + (share ? one / 2 : 0)) >> 32;
}

/* End @n periods with the same share; they had @stall ns in all. */
static void psi_avgs_end(struct psi_avgs *avgs, int s, u64 stall, u64 n, const u64 *keep)
{
	u64 sum = avgs->pending[s] + stall;
	u64 each = min_t(u64, div64_u64(sum, n), PSI_PERIOD);
	u32 share = div64_u64(each << PSI_AVG_SHIFT, PSI_PERIOD);
	u32 *avg = avgs->avg[s];

	avgs->pending[s] = sum - each * n;
	avg[PSI_10S] = psi_feed(avg[PSI_10S], share, keep[PSI_10S]);
	avg[PSI_60S] = psi_feed(avg[PSI_60S], share, keep[PSI_60S]);
	avg[PSI_300S] = psi_feed(avg[PSI_300S], share, keep[PSI_300S]);
}

/* The common case: no average is above zero, and there is no stall now. */
static bool psi_avgs_zero(const struct psi_avgs *avgs, int s, u64 stall)
{
	const u32 *avg = avgs->avg[s];

	return !(stall | avgs->pending[s] | avg[PSI_10S] | avg[PSI_60S] | avg[PSI_300S]);
}

static const u64 psi_no_stall[PSI_NR_STATES];

/* Add a window up to @to. @window: per state, stall since @avgs->at, in ns. */
static void psi_avgs_advance(struct psi_avgs *avgs, unsigned int states, u64 to,
			     const u64 *window)
{
	u64 stall[PSI_NR_STATES] __uninitialized, decay[PSI_NR_HORIZONS] __uninitialized;
	u64 mark = psi_next_mark(avgs->at, PSI_PERIOD);
	unsigned int alive = 0;
	unsigned long s, h;

	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++) {
		stall[s] = window[s];
		if (!psi_avgs_zero(avgs, s, stall[s]))
			alive |= BIT(s) & states;
	}

	while (to >= mark) {
		/* A period under way ends alone, whole ones go together. */
		bool whole = avgs->at + PSI_PERIOD == mark;
		u64 n = whole ? div64_u64(to - avgs->at, PSI_PERIOD) : 1;
		u64 end = mark + (n - 1) * PSI_PERIOD;
		const u64 *keep = psi_decay;

		if (unlikely(n > 1)) {
			for (h = 0; h < PSI_NR_HORIZONS; h++)
				decay[h] = psi_pow(psi_decay[h], n);
			keep = decay;
		}
		psi_for_each_state(s, alive) {
			u64 part = psi_muldiv(stall[s], end - avgs->at, to - avgs->at);

			psi_avgs_end(avgs, s, part, n, keep);
			stall[s] -= part;
		}
		avgs->at = end;
		mark = end + PSI_PERIOD;
	}

	psi_for_each_state(s, alive)
		avgs->pending[s] += stall[s];
	avgs->at = max(avgs->at, to);
}

static unsigned int psi_avg_basis_points(u32 avg)
{
	return ((u64)avg * 10000 + PSI_AVG_ONE / 2) >> PSI_AVG_SHIFT;
}

/* Bring averages to @now, with @stall since @avgs->at, all after @idle. */
static void psi_avgs_update(struct psi_avgs *avgs, unsigned int states, u64 idle, u64 now,
			    const u64 *stall)
{
	if (avgs->at < idle)
		psi_avgs_advance(avgs, states, idle, psi_no_stall);
	psi_avgs_advance(avgs, states, now, stall);
}

/* Add a window up to @now, with @stall, all after @idle. */
static void psi_account_add(struct psi_account *account, u64 idle, u64 now, const u64 *stall)
{
	int s;

	for (s = PSI_NONIDLE + 1; s < PSI_NR_STATES; s++)
		account->total[s] += stall[s];
	psi_avgs_update(&account->avgs, PSI_ALL_STATES, idle, now, stall);
}
