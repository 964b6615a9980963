package suite

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/world"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Scene is a history of two clients and a quorum of three in which one thing
// happens at the worst moment. Random faults would take long to find it.
type Scene struct {
	Name string
	// Breaks names the variant of the library that a run of it finds broken, by
	// a violation of Shows.
	Breaks string
	Shows  Property

	play func(*stage)
}

const (
	stageName  = "stock"
	stageLimit = 20 * time.Second // for what comes soon
	renewal    = "Extends leases" // in the text of the script that also writes tokens back
)

// Scenes are all there are.
var Scenes = []Scene{
	{"node of a bare majority restarted empty", "grace-off", Exclusion, restartedEmpty},
	{"node whose clock is ahead answers one client only", "naive-max", Order, clockAhead},
	{"write-back that arrives after the lease has passed on", "write-back-unconditional", Exclusion, lateWriteBack},
	{"client frozen between its grants and its knowing of them", "elapsed-ignored", Exclusion, frozenAsking},
}

// BareMajority is a scene in which two holders are rightly found: a clock that
// jumps forward ends the lease on its node, and the lease had no node to spare.
var BareMajority = Scene{"node of a bare majority steps its clock forward", "", Exclusion, jumpForward}

// stage is where a scene plays. Client a takes the links of side 0, b of side 1.
type stage struct {
	*fleet

	tb     testing.TB
	random *rand.Rand
	a, b   *client.Process
	short  []string // what should have happened and did not
}

// Play runs the scene.
func (s Scene) Play(t testing.TB, seed uint64, o Options) *Run {
	setting := world.Three
	setting.Name = s.Name
	run := &Run{Setting: setting, Seed: seed, Faults: map[world.Fault]int{}, Wrong: map[Property][]string{}}
	w := setting.Open(t)
	st := &stage{tb: t, random: rand.New(rand.NewPCG(seed, 0)), fleet: &fleet{world: w, program: o.Program, limit: w.TTL * 9 / 10}}
	if s.Shows == Exclusion && s.Breaks == "elapsed-ignored" {
		st.limit = stageLimit
	}
	st.job = client.Job{Seed: seed, TTL: w.TTL, Storage: w.Storage.Addr()}
	t.Cleanup(st.kill)
	for range 2 {
		p, err := st.start()
		if err != nil {
			run.wrong(Harness, err.Error())
			return run
		}
		st.living = append(st.living, p)
	}
	st.a, st.b = st.living[0], st.living[1]
	s.play(st)
	for _, p := range st.living {
		_ = p.Thaw()
		p.Tell(client.Order{Do: client.Release})
	}
	if err := w.Heal(); err != nil {
		run.wrong(Harness, err.Error())
	}
	if err := st.end(); err != nil {
		run.wrong(Harness, err.Error())
	}
	h := st.history()
	run.Ops = len(h.Holds)
	run.wrong(Exclusion, h.Exclusion()...)
	run.wrong(Order, h.Order(true)...)
	run.models(Lock, h.Locks(true), o)
	run.Short = st.short
	return run
}

// ask lets a client acquire, and returns a way to learn whether it did.
func ask(p *client.Process, name string, wait time.Duration) (granted func() bool) {
	before := p.Seen()
	p.Tell(client.Order{Do: client.Acquire, Name: name, Wait: wait})
	return func() bool {
		e, _ := p.AwaitAfter(before, stageLimit, func(e client.Event) bool {
			return e.Kind == client.Granted || e.Kind == client.Refused
		})
		return e.Kind == client.Granted
	}
}

func (s *stage) get(p *client.Process, name string) bool {
	if ask(p, name, stageLimit)() {
		return true
	}
	s.short = append(s.short, "a client was refused "+name)
	return false
}

func letGo(p *client.Process) {
	before := p.Seen()
	p.Tell(client.Order{Do: client.Release})
	p.AwaitAfter(before, stageLimit, func(e client.Event) bool { return e.Kind == client.Done })
}

// visit makes a client's connections, and the scripts and clocks known.
func (s *stage) visit(p *client.Process) {
	for range 2 {
		if s.get(p, "elsewhere") {
			letGo(p)
		}
	}
}

// cut keeps one client from one node, and lets it notice at once.
func (s *stage) cut(side, node int) {
	l := s.world.Link(side, node)
	l.Refuse()
	l.Reset()
}

// restartedEmpty: a has nodes 0 and 1, node 1 forgets, and b asks 1 and 2.
func restartedEmpty(s *stage) {
	s.cut(0, 2)
	s.cut(1, 0)
	if !s.get(s.a, stageName) {
		return
	}
	time.Sleep(time.Duration(s.random.Int64N(int64(s.world.TTL))))
	s.world.Servers[1].Kill()
	s.world.Servers[1].Restart()
	ask(s.b, stageName, s.world.TTL+s.world.TTL/2)()
}

// clockAhead: node 0 is ahead, so what a is granted there is too high for 1 and 2
// to know of, unless it is told to one of them.
func clockAhead(s *stage) {
	s.world.Servers[0].SetClock(2*time.Minute + time.Duration(s.random.Int64N(int64(20*time.Minute))))
	s.cut(0, 2)
	s.cut(1, 0)
	for range 3 {
		for _, p := range s.living {
			if s.get(p, stageName) {
				letGo(p)
			}
		}
	}
}

// lateWriteBack: a was granted different tokens by nodes 0 and 1. Its lease on 0
// ends early, b has 0 and 2, and only then a's write-back reaches 0. Without a
// write-back a would hold by then, and nothing is claimed of that; a does not wait
// for a second round either.
func lateWriteBack(s *stage) {
	const ahead = 2 * time.Minute // too far to propose a token that both would grant
	s.world.Servers[0].SetClock(ahead)
	s.visit(s.a)
	s.visit(s.b)
	s.cut(0, 2)
	s.cut(1, 1)
	late := s.world.Link(0, 0)
	// A server that knows no script is sent its text.
	if err := s.world.Servers[0].Client(s.tb).ScriptFlush(s.tb.Context()).Err(); err != nil {
		s.short = append(s.short, err.Error())
	}
	held := late.HoldRequest(redistest.Match{Command: "EVAL", Contains: renewal})
	granted := ask(s.a, stageName, s.world.TTL*3/4)
	written := happened(held, 1)
	if e, _ := s.a.Await(0, func(e client.Event) bool { return e.Name == stageName }); !written || e.Kind == client.Granted {
		s.short = append(s.short, "nothing was written back")
		return
	}
	s.world.Servers[0].SetClock(ahead + 2*s.world.TTL)
	s.get(s.b, stageName)
	held.End()
	granted()
}

// frozenAsking: a is granted the name everywhere, and frozen before it hears of it
// until b has it.
func frozenAsking(s *stage) {
	s.visit(s.a)
	s.visit(s.b)
	var held []*redistest.Fault
	for node := range s.world.Servers {
		held = append(held, s.world.Link(0, node).HoldReply(redistest.Match{Command: "EVALSHA", Contains: "lock:{" + stageName + "}", Times: -1}))
	}
	granted := ask(s.a, stageName, 3*s.world.TTL)
	for _, f := range held {
		if !happened(f, 1) {
			s.short = append(s.short, "a node was not asked")
		}
	}
	_ = s.a.Freeze()
	for _, f := range held {
		f.End()
	}
	s.get(s.b, stageName)
	_ = s.a.Thaw()
	granted()
}

// jumpForward: a has nodes 0 and 1, the clock of 1 jumps, and b gets 1 and 2.
func jumpForward(s *stage) {
	s.cut(0, 2)
	s.cut(1, 0)
	if !s.get(s.a, stageName) {
		return
	}
	s.world.Servers[1].SetClock(2 * s.world.TTL)
	ask(s.b, stageName, s.world.TTL/2)()
}

func happened(f *redistest.Fault, n int) bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f.Count() >= n {
			return true
		}
	}
	return false
}
