package line

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, change func(*Config)) {
		c := Config{
			Calls: 3, Grants: 3, Tokens: 3, TTL: 3, Early: 1, Margin: 1, Pass: 1, GivenUp: 1, Cancel: true,
		}
		change(&c)
		cases = append(cases, explore.Case{
			Model: "line", Name: name, Bounds: c.bounds(), Breaks: breaks, Run: c.run,
		})
	}
	big := func(name string, change func(*Config)) {
		add("", name, change)
		cases[len(cases)-1].Big = true
	}
	const me, order, loss, wait, orphan = "ME", "ORDER", "LOSS", "WAIT", "ORPHAN"

	// Hand-off.
	add(order, "the next call gets the same token", func(c *Config) { c.SameToken = true })
	add(order, "a lease is passed on more often than it has tokens", func(c *Config) { c.Tokens, c.NoTokenLimit = 2, true })
	add(me, "a lease is passed on before the context has ended", func(c *Config) { c.HandOnFirst = true })
	add(orphan, "a turn that comes too late is dropped", func(c *Config) { c.DropsTurn = true })
	add(loss, "work starts without a look at the clock", func(c *Config) { c.StartsBlind = true })

	// The request belongs to the line.
	add(wait, "an asker leaves without a word", func(c *Config) { c.DropsLine = true })
	add(orphan, "the next asker takes a fresh owner", func(c *Config) { c.FreshOwner = true })
	add(orphan, "an empty line abandons nothing", func(c *Config) { c.NotAbandoned = true })
	add(order, "an owner is used again after its release", func(c *Config) { c.SameOwner = true })

	// Loss.
	add(orphan, "a lease lost before its call starts is not released", func(c *Config) { c.NotReleased = true })
	add(loss, "a renewed lease is passed on, its answer is for the sender", func(c *Config) { c.Breaks, c.PassRenewed = 1, true })
	add("", "a renewed lease is passed on, its answer is for the holder", func(c *Config) {
		c.Breaks, c.GivenUp, c.PassRenewed, c.TellHolder = 1, 0, true, true
	})
	add(loss, "a lost lease is passed on", func(c *Config) { c.Breaks, c.PassRenewed, c.TellHolder, c.PassLost = 1, true, true, true })

	// As built.
	add("", "as built", func(c *Config) { c.Grants = 2 })
	add("", "as built, an operator deletes the key", func(c *Config) { c.Breaks, c.GivenUp = 1, 0 })
	add("", "as built, the machine sleeps", func(c *Config) { c.Sleeps, c.GivenUp = 1, 0 })
	big("as built", func(*Config) {})
	big("as built, an operator deletes the key", func(c *Config) { c.Breaks = 1 })
	big("as built, the machine sleeps", func(c *Config) { c.Sleeps = 2 })
	big("as built", func(c *Config) { c.Calls, c.Tokens, c.GivenUp = 4, 4, 0 })
	return cases
}

func (c Config) bounds() string {
	b := fmt.Sprintf("%d calls, %d grants of %d tokens, %d given up, TTL %d", c.Calls, c.Grants, c.Tokens, c.GivenUp, c.TTL)
	if c.Breaks > 0 {
		b += fmt.Sprintf(", %d deleted", c.Breaks)
	}
	if c.Sleeps > 0 {
		b += fmt.Sprintf(", %d asleep", c.Sleeps)
	}
	return b
}
