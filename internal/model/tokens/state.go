package tokens

import (
	"fmt"
	"strings"
)

const (
	maxNodes    = 5
	maxAttempts = 4
	maxToken    = 1<<9 - 1
)

// state is all nodes and all attempts. Nodes are interchangeable, so they are
// kept in order of their columns and a state stands for all its permutations.
type state struct {
	node    [maxNodes]column
	phase   [maxAttempts]phase
	token   [maxAttempts]uint16 // base of the grant; while storing: what is stored
	propose [maxAttempts]uint16
	after   [maxAttempts]uint8 // the attempts that had ended well when this one began
	raises  uint8
}

type phase uint8

const (
	idle    phase = iota
	asking        // acquire was sent to all nodes
	storing       // the answers differ: the largest is written back
	done          // the token was handed out
)

// column is one node, and what each attempt has to do with it: owner (3 bits),
// mark (9), and for each attempt answer (2), base of the grant (9), and
// write-back (2).
type column uint64

const free = 7 // owner of a lease that nobody holds

// answer of a node to an acquire.
const (
	noAnswer = iota
	seen     // granted, and the client read it
	unseen   // granted, and the client has not read it so far
	seenLate // seen, and then another copy of the request was granted as well
)

// writeBack at a node.
const (
	notSent = iota
	sent
	stored
	storedUnseen // stored, and the answer was lost
)

func (c column) owner() int             { return int(c & 7) }
func (c column) withOwner(o int) column { return c&^7 | column(o) }
func (c column) mark() uint16           { return uint16(c>>3) & maxToken }
func (c column) withMark(t uint16) column {
	return c&^(maxToken<<3) | column(t)<<3
}

func shift(attempt, at int) uint { return uint(12 + 13*attempt + at) }

func (c column) answer(a int) int { return int(c>>shift(a, 0)) & 3 }
func (c column) withAnswer(a, v int) column {
	return c&^(3<<shift(a, 0)) | column(v)<<shift(a, 0)
}

func (c column) base(a int) uint16 { return uint16(c>>shift(a, 2)) & maxToken }
func (c column) withBase(a int, t uint16) column {
	return c&^(maxToken<<shift(a, 2)) | column(t)<<shift(a, 2)
}

func (c column) writeBack(a int) int { return int(c>>shift(a, 11)) & 3 }
func (c column) withWriteBack(a, v int) column {
	return c&^(3<<shift(a, 11)) | column(v)<<shift(a, 11)
}

// heard tells whether the client knows the base that the node granted.
func (c column) heard(a int) bool { return c.answer(a) == seen || c.answer(a) == seenLate }

func letter(a int) rune { return 'A' + rune(a) }

func (m *model) show(s *state) string {
	var b strings.Builder
	for _, c := range s.node[:m.Nodes] {
		owner := '-'
		if c.owner() != free {
			owner = letter(c.owner())
		}
		fmt.Fprintf(&b, "[%c %d]", owner, c.mark())
	}
	for a := range m.Attempts {
		switch s.phase[a] {
		case asking:
			fmt.Fprintf(&b, " %c asks", letter(a))
		case storing:
			fmt.Fprintf(&b, " %c stores %d", letter(a), s.token[a])
		case done:
			fmt.Fprintf(&b, " %c has %d", letter(a), s.token[a])
		}
	}
	return b.String()
}
