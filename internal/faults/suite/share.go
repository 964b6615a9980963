package suite

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/faults/client"
	"github.com/holdfast-go/holdfast/internal/faults/tb"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

// Share is how much is run.
type Share struct {
	Seed      uint64
	Histories int           // of each setting
	For       time.Duration // more histories until then
	Ops       int           // more histories until so many acquisitions were made
	Stale     int           // and so many writes refused
	Limit     time.Duration // but none is begun after that; 0: no limit
	Topology  string        // only settings with this in their name
	Scenes    int           // plays of each scene
	Control   int           // seeds within which each broken variant must be found; 0: no control group
	Paths     time.Duration // how long to count paths of quorum grants; 0: not at all
	Side      int           // how many histories at a time
	Save      string        // folder for pages of histories that failed
	Say       func(format string, args ...any)
}

// Path is how many grants of a quorum needed one round trip only.
type Path struct {
	Contenders   int
	Grants, Slow int64
}

// Total is what a Share came to.
type Total struct {
	Share   Share
	Began   time.Time
	Took    time.Duration
	Runs    []*Run
	Scenes  []*Run
	Control []Caught
	Paths   []Path
	Limits  []*Run // of BareMajority
	Trouble []string
}

const pace = time.Millisecond

// Do runs the share.
func (s Share) Do() *Total {
	t := &Total{Share: s, Began: time.Now()}
	options := Options{Pace: pace, Save: s.Save}
	var settings []world.Setting
	for _, one := range world.Settings {
		if strings.Contains(one.String(), s.Topology) {
			settings = append(settings, one)
		}
	}
	var jobs []func()
	var mu sync.Mutex
	add := func(list *[]*Run, name string, play func(t *tb.T) *Run) {
		jobs = append(jobs, func() {
			var r *Run
			err := tb.Run(name, func(t *tb.T) { r = play(t) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Trouble = append(t.Trouble, err.Error())
			}
			if r != nil {
				*list = append(*list, r)
				if list != &t.Limits {
					s.report(r)
				}
			}
		})
	}
	for n := range s.Scenes {
		for _, scene := range append(slices.Clone(Scenes), BareMajority) {
			list := &t.Scenes
			if scene.Name == BareMajority.Name {
				list = &t.Limits
			}
			add(list, scene.Name, func(t *tb.T) *Run { return scene.Play(t, s.Seed+uint64(n), options) })
		}
	}
	parallel(jobs, 3*s.Side) // they mostly wait
	for n := 0; s.more(t, n); n++ {
		jobs = nil
		for _, one := range settings {
			add(&t.Runs, one.String(), func(t *tb.T) *Run { return Play(t, one, s.Seed+uint64(n), options) })
		}
		parallel(jobs, s.Side)
	}
	if s.Control > 0 {
		t.Control = s.control(options)
	}
	if s.Paths > 0 {
		t.Paths = s.paths(t)
	}
	t.Took = time.Since(t.Began)
	return t
}

// more tells whether another history of each setting is to be run after n.
func (s Share) more(t *Total, n int) bool {
	if s.Histories == 0 {
		return false
	}
	since, sum := time.Since(t.Began), t.Sum()
	wanted := n < s.Histories || since < s.For || sum.Ops < s.Ops || sum.Stale < s.Stale
	return wanted && (s.Limit == 0 || since < s.Limit)
}

func (s Share) report(r *Run) {
	s.Say("%v, seed %d: %d acquisitions, %d faults", r.Setting, r.Seed, r.Ops, sum(r.Faults))
	bad := r.Violations()
	for _, what := range bad {
		s.Say("  VIOLATION %s", what)
	}
	if len(bad) > 0 {
		s.Say("  its faults:\n    %s", strings.Join(r.Log, "\n    "))
	}
}

func sum[K comparable](m map[K]int) (n int) {
	for v := range maps.Values(m) {
		n += v
	}
	return n
}

func parallel(jobs []func(), side int) {
	var all sync.WaitGroup
	free := make(chan struct{}, max(side, 1))
	for _, job := range jobs {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			job()
		})
	}
	all.Wait()
}

// paths counts grants of a quorum of 5 to which nothing happens, for a contender
// alone and for 8.
func (s Share) paths(total *Total) (list []Path) {
	for _, contenders := range []int{1, 1, 1, 8} { // a busy machine delays more requests than a proposal has slack for
		if n := len(list); contenders == 1 && n > 0 && list[n-1].Share() >= fastShare {
			continue
		}
		list = slices.DeleteFunc(list, func(p Path) bool { return p.Contenders == contenders })
		err := tb.Run("paths", func(t *tb.T) {
			w := world.Five.Open(t)
			p, err := client.Start("", client.Job{Store: w.Direct(), TTL: w.TTL, Storage: w.Storage.Addr()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			p.Tell(client.Order{Do: client.Paths, Name: stageName, Wait: s.Paths, Contenders: contenders})
			e, ok := p.Await(s.Paths+stageLimit, func(e client.Event) bool { return e.Kind == client.Done })
			if !ok {
				t.Fatal("no answer")
			}
			list = append(list, Path{contenders, e.Token, e.Value})
			s.Say("quorum of 5, %d contenders: %d grants, %d not in one round trip", contenders, e.Token, e.Value)
		})
		if err != nil {
			total.Trouble = append(total.Trouble, err.Error())
		}
	}
	return list
}
