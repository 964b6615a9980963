package mark

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, c Config) {
		c.End, c.Keep, c.Block = 60, 12, 2
		cases = append(cases, explore.Case{
			Model: "mark", Name: name, Breaks: breaks, Run: c.run,
			Bounds: fmt.Sprintf("time 1..%d, kept for %d, block %d, proposals %d ahead, clock steps back %d", c.End, c.Keep, c.Block, c.Propose, c.StepBack),
		})
	}
	const order = "ORDER"
	add("", "mark expires a while after its token", Config{})
	add("", "mark expires a while after its token, floors", Config{Propose: 2, Floor: true})
	add("", "clock steps back less than marks are kept", Config{Propose: 2, Floor: true, StepBack: 10})
	add(order, "clock steps back as far as marks are kept", Config{StepBack: 12})
	add(order, "mark expires a while after the grant, floors", Config{Floor: true, FromNow: true})
	add(order, "mark expires a while after the grant, clock steps back less than marks are kept", Config{Propose: 2, FromNow: true, StepBack: 10})
	add(order, "grants do not look at the clock", Config{NoClock: true})
	return cases
}
