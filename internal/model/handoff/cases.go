package handoff

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, change func(*Config)) {
		c := Config{
			Procs: 2, Owners: 1, TTL: 3, Claim: 2, Live: 2, Early: 1, Margin: 1, Grants: 4, GivenUp: 2,
			Renew: true, Cancel: true,
		}
		change(&c)
		if breaks == "ME" || breaks == "ORDER" {
			c.Only = breaks // another rule may be broken sooner
		}
		cases = append(cases, explore.Case{
			Model: "handoff", Name: name, Bounds: c.bounds(), Breaks: breaks, Run: c.run,
		})
	}
	big := func(name string, change func(*Config)) {
		add("", name, change)
		cases[len(cases)-1].Big = true
	}
	twice := func(c *Config) {
		c.Owners, c.Grants, c.GivenUp, c.Renew, c.Cancel = 2, 5, 1, false, false
	}
	three := func(c *Config) { c.Procs, c.GivenUp, c.Renew, c.Cancel = 3, 0, false, false }
	const me, order, ghost, result, minHold = "ME", "ORDER", "GHOST", "RESULT", "MINHOLD"

	// A published grant.
	add(me, "published grant of an earlier place in the queue counts", func(c *Config) { twice(c); c.OldGrants = true })
	add(order, "published grant of an earlier place in the queue counts", func(c *Config) { twice(c); c.OldGrants = true })
	add(me, "published grant counts from when it is read, for the claim window", func(c *Config) { c.Trust = sinceRead })
	add(me, "published grant counts from when it is read, for the TTL", func(c *Config) { c.Trust = fullTTL })
	add(me, "published grant of an owner that holds is released", func(c *Config) { c.HandBack = ofHolding })
	add(result, "published grant of an owner that is being released is released again", func(c *Config) { c.HandBack = ofReleasing })
	add(me, "release reserves, and the message is believed", func(c *Config) { c.Reserve = trusted })
	add(me, "release reserves, and the message is believed, with a foreigner", func(c *Config) { c.Reserve = trusted; c.Foreign = 1 })
	add("", "release reserves, and the head asks; a foreigner may come first", func(c *Config) { c.Reserve = hints; c.Foreign, c.GivenUp = 1, 1 })

	// Owners.
	add(me, "no margin", func(c *Config) { c.Margin = 0 })
	add(ghost, "no tombstone when the owner holds", func(c *Config) { c.Tombs = onlyOther })
	add(ghost, "no tombstone", func(c *Config) { c.Tombs = never })
	add(me, "owner used again after its release", func(c *Config) { twice(c); c.Cancel, c.SameOwner, c.Tombs = true, true, never })

	// What a release reports.
	add(result, "not ours is always a loss", func(c *Config) { c.NotOurs = isLoss })
	add(result, "not ours is a loss also after the lease would have been over", func(c *Config) { c.NotOurs = byCopies })
	add(result, "not ours is never a loss, an operator deletes the key", func(c *Config) { c.NotOurs, c.Breaks = isFine, 1 })

	// Minimum hold.
	add(minHold, "minimum hold leaves the owner, a late release ends it", func(c *Config) { c.MinHold, c.KeepsOwner = 2, true })

	// As built.
	add("", "as built", func(*Config) {})
	add("", "as built, a foreigner", func(c *Config) { c.Foreign, c.GivenUp = 1, 1 })
	add("", "as built, an operator deletes the key", func(c *Config) { c.Breaks, c.GivenUp = 1, 1 })
	add("", "as built, minimum hold", func(c *Config) { c.MinHold, c.GivenUp = 2, 1 })
	add("", "as built, two owners each", twice)
	add("", "as built, three processes", three)
	add("", "as built, two owners each", func(c *Config) { c.Owners, c.GivenUp = 2, 0 })
	big("as built, two owners each", func(c *Config) { c.Owners, c.GivenUp, c.Renew = 2, 1, false })
	big("as built, three processes", func(c *Config) { three(c); c.Cancel = true })
	big("as built, three processes", func(c *Config) { three(c); c.Renew = true })
	big("as built, a foreigner and a minimum hold", func(c *Config) { c.Foreign, c.MinHold, c.GivenUp = 1, 2, 1 })
	return cases
}

func (c Config) bounds() string {
	b := fmt.Sprintf("%d processes, %d owners each, %d grants, %d given up, TTL %d, claim %d", c.Procs, c.Owners, c.Grants, c.GivenUp, c.TTL, c.Claim)
	if c.Renew {
		b += ", renewals"
	}
	if c.Cancel {
		b += ", cancels"
	}
	if c.Only != "" {
		b += ", " + c.Only + " only"
	}
	return b
}
