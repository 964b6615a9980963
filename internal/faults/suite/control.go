package suite

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/internal/faults/tb"
	"github.com/holdfast-go/holdfast/internal/faults/variant"
	"github.com/holdfast-go/holdfast/internal/faults/world"
)

// Caught is a member of the control group, and how it was found out.
type Caught struct {
	Variant string
	Seeds   int
	How     string // empty if it was not
}

// control plays with each broken variant what must find it.
func (s Share) control(o Options) []Caught {
	found := make([]Caught, 1+len(Scenes))
	jobs := []func(){func() { found[0] = s.unfenced(o) }}
	for i, scene := range Scenes {
		jobs = append(jobs, func() { found[i+1] = s.broken(scene, o) })
	}
	parallel(jobs, 2*s.Side)
	return found
}

// unfenced is a storage that does not compare tokens, behind locks that are as
// they should be.
func (s Share) unfenced(o Options) Caught {
	c := Caught{Variant: "fencing off"}
	o.Unfenced, o.Save = true, ""
	for c.Seeds < s.Control && c.How == "" {
		c.Seeds++
		err := tb.Run(c.Variant, func(t *tb.T) {
			r := Play(t, world.Settings[0], s.Seed+uint64(c.Seeds), o)
			for _, p := range []Property{Updates, Register} {
				for _, what := range r.Wrong[p] {
					c.How = fmt.Sprintf("%s: %s", p, what)
				}
			}
		})
		if err != nil {
			s.Say("fencing off: %v", err)
		}
	}
	s.Say("control group, %s: %s", c.Variant, c.How)
	return c
}

func (s Share) broken(scene Scene, o Options) Caught {
	c := Caught{Variant: scene.Breaks}
	dir, err := os.MkdirTemp("", "faults-")
	if err == nil {
		defer os.RemoveAll(dir)
		o.Program, err = variant.Build(context.Background(), scene.Breaks, dir)
	}
	if err != nil {
		s.Say("%v", err)
		return c
	}
	o.Save = ""
	for c.Seeds < s.Control && c.How == "" {
		c.Seeds++
		err := tb.Run(c.Variant, func(t *tb.T) {
			r := scene.Play(t, s.Seed+uint64(c.Seeds), o)
			for _, what := range r.Wrong[scene.Shows] {
				c.How = fmt.Sprintf("%s: %s", scene.Shows, what)
			}
		})
		if err != nil {
			s.Say("%s: %v", c.Variant, err)
		}
	}
	s.Say("control group, %s: %s", c.Variant, c.How)
	return c
}
