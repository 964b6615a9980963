package explore

import (
	"hash/maphash"
	"slices"
)

// none is the parent of a start state.
const none = int32(-1)

// visited is the set of known states, numbered in the order in which they were
// found. Each remembers the state it was first reached from.
type visited[K comparable] struct {
	seed    maphash.Seed
	keys    list[K]
	parents list[int32]
	slots   []int32 // hash table of numbers, 1 based; 0 is empty
}

func newVisited[K comparable]() *visited[K] {
	return &visited[K]{seed: maphash.MakeSeed(), slots: make([]int32, 1<<10)}
}

func (v *visited[K]) len() int { return v.keys.n }

// add tells whether k was not known.
func (v *visited[K]) add(k K, parent int32) bool {
	slot := v.slot(k)
	if v.slots[slot] != 0 {
		return false
	}
	v.keys.push(k)
	v.parents.push(parent)
	v.slots[slot] = int32(v.keys.n)
	if v.keys.n > len(v.slots)/5*3 {
		v.grow()
	}
	return true
}

// slot is where k is, or where it belongs.
func (v *visited[K]) slot(k K) uint64 {
	mask := uint64(len(v.slots) - 1)
	for slot := maphash.Comparable(v.seed, k) & mask; ; slot = (slot + 1) & mask {
		if i := v.slots[slot]; i == 0 || *v.keys.at(int(i - 1)) == k {
			return slot
		}
	}
}

func (v *visited[K]) grow() {
	v.slots = make([]int32, 2*len(v.slots))
	mask := uint64(len(v.slots) - 1)
	for i := range v.keys.n {
		slot := maphash.Comparable(v.seed, *v.keys.at(i)) & mask
		for v.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		v.slots[slot] = int32(i + 1)
	}
}

// path leads from a start state to state number i.
func (v *visited[K]) path(i int) []K {
	var p []K
	for n := int32(i); n != none; n = *v.parents.at(int(n)) {
		p = append(p, *v.keys.at(int(n)))
	}
	slices.Reverse(p)
	return p
}

const chunkBits = 14

// list grows by chunks, so that it never holds everything twice.
type list[T any] struct {
	chunks [][]T
	n      int
}

func (l *list[T]) at(i int) *T { return &l.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

func (l *list[T]) push(t T) {
	if l.n>>chunkBits == len(l.chunks) {
		l.chunks = append(l.chunks, make([]T, 1<<chunkBits))
	}
	l.n++
	*l.at(l.n - 1) = t
}

// queue is first in, first out, and gives its memory back by chunks.
type queue[T any] struct {
	list[T]
	head int
}

func (q *queue[T]) push(t *T) { q.list.push(*t) }

func (q *queue[T]) pop() T {
	t := *q.at(q.head)
	if q.head++; q.head&(1<<chunkBits-1) == 0 {
		q.chunks[q.head>>chunkBits-1] = nil
	}
	return t
}
