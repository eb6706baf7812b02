#include "text/merge.h"

#define NO_MERGE 0xffffffffu /* rank of a place without a pair to merge */

mk_word mk_word_place(void *scratch, size_t capacity)
{
    uint32_t *p = scratch;
    return (mk_word){
        .symbol = p,
        .next = p + capacity,
        .previous = p + 2 * capacity,
        .rank = p + 3 * capacity,
        .merged = p + 4 * capacity,
        .best = p + 5 * capacity,
    };
}

static uint32_t winner(const mk_word *w, uint32_t node)
{
    return node >= w->count ? node - w->count : w->best[node];
}

/* Plays the match of a node again: lower rank, then lower place. */
static void play(mk_word *w, uint32_t node)
{
    uint32_t a = winner(w, 2 * node), b = winner(w, 2 * node + 1);
    if (w->rank[b] < w->rank[a] || (w->rank[b] == w->rank[a] && b < a))
        a = b;
    w->best[node] = a;
}

/* After the rank of a place has changed. Above a match that another place won before and after, nothing
 * changes. */
static void replay_up(mk_word *w, uint32_t place)
{
    for (uint32_t node = (w->count + place) / 2; node >= 1; node /= 2) {
        uint32_t before = w->best[node];
        play(w, node);
        if (w->best[node] == before && before != place)
            return;
    }
}

/* Looks up the pair that begins at a place. */
static void rate(const mk_vocab *v, mk_word *w, uint32_t place)
{
    uint32_t next = w->next[place];
    const mkn_merge *m = next == MK_WORD_END ? NULL : mk_vocab_merge(v, w->symbol[place], w->symbol[next]);
    w->rank[place] = m ? m->rank : NO_MERGE;
    w->merged[place] = m ? m->merged : MKN_NO_TOKEN;
}

static void begin(const mk_vocab *v, mk_word *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        w->next[i] = i + 1 < w->count ? i + 1 : MK_WORD_END;
        w->previous[i] = i ? i - 1 : MK_WORD_END;
        rate(v, w, i);
    }
    for (uint32_t node = w->count - 1; node >= 1; node--)
        play(w, node);
}

/* The pair at `place` becomes one symbol there. */
static void merge_at(const mk_vocab *v, mk_word *w, uint32_t place)
{
    uint32_t gone = w->next[place], after = w->next[gone], before = w->previous[place];
    w->symbol[place] = w->merged[place];
    w->next[place] = after;
    if (after != MK_WORD_END)
        w->previous[after] = place;
    w->rank[gone] = NO_MERGE;
    replay_up(w, gone);
    rate(v, w, place);
    replay_up(w, place);
    if (before != MK_WORD_END) {
        rate(v, w, before);
        replay_up(w, before);
    }
}

void mk_word_merge(const mk_vocab *v, mk_word *w)
{
    if (w->count == 0)
        return;
    begin(v, w);
    if (w->count == 1)
        return;
    while (w->rank[w->best[1]] != NO_MERGE)
        merge_at(v, w, w->best[1]);
}
