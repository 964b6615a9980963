package redlock

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/model/explore"
)

// Cases are the configurations worth exploring.
func Cases() []explore.Case {
	var cases []explore.Case
	add := func(breaks, name string, c Config) {
		c.Attempts, c.TTL = max(c.Attempts, 2), max(c.TTL, 2)
		if c.Block == 0 {
			c.Block = 3
		}
		cases = append(cases, explore.Case{
			Model: "redlock", Name: name, Bounds: c.bounds(), Breaks: breaks, Run: c.run,
		})
	}
	big := func(name string, c Config) {
		add("", name, c)
		cases[len(cases)-1].Big = true
	}
	const me, order = "ME", "ORDER"

	// Clocks.
	add("", "nothing fails", Config{End: 5})
	add("", "nothing fails, three attempts", Config{End: 5, Attempts: 3})
	add(me, "leases end early, no margin", Config{End: 5, TTL: 3, Early: 1})
	add("", "leases end early, margin", Config{End: 5, TTL: 3, Early: 1, Margin: 1})
	add(me, "lease counts from the answer", Config{End: 5, FromAnswer: true})

	// Data loss.
	add(me, "1 wipe, no grace", Config{End: 5, Wipes: 1})
	add(me, "1 wipe, grace shorter than the TTL", Config{End: 5, Wipes: 1, Grace: 1})
	add("", "1 wipe, grace as long as the TTL", Config{End: 5, Wipes: 1, Grace: 2})
	add("", "3 wipes, grace as long as the TTL", Config{End: 6, Wipes: 3, Grace: 2})
	add("", "1 wipe, grace, three attempts", Config{End: 5, Attempts: 3, Wipes: 1, Grace: 2})
	add("", "2 wipes, grace, leases end early, margin", Config{End: 7, TTL: 3, Early: 1, Margin: 1, Wipes: 2, Grace: 3})
	add("", "1 wipe, grace, proposals ahead, three attempts", Config{End: 5, Attempts: 3, Wipes: 1, Grace: 3, Skew: 1})

	// Tokens after data loss.
	add(order, "1 wipe, no grace, tokens alone", Config{End: 5, Wipes: 1, Only: order})
	add(order, "1 wipe, no grace, proposals ahead, tokens alone", Config{End: 5, Wipes: 1, Skew: 1, Only: order})
	add(order, "1 wipe, grace, counters in place of clocks", Config{End: 6, Wipes: 1, Grace: 2, Mint: counted})
	add(order, "3 wipes, grace, a node believes an old proposal", Config{End: 6, Wipes: 3, Grace: 2, Skew: 1, Mint: proposed})
	add("", "3 wipes, grace, only empty nodes look at their clock", Config{End: 6, Wipes: 3, Grace: 3, Skew: 1, Mint: emptyClocks})
	add(order, "1 wipe, proposals as far ahead as grace is long", Config{End: 6, Wipes: 1, Grace: 3, Skew: 3, Only: order})
	add("", "1 wipe, grace longer than proposals are ahead", Config{End: 7, Wipes: 1, Grace: 4, Skew: 3, Only: order})
	add("", "2 wipes, grace longer than proposals are ahead", Config{End: 6, Wipes: 2, Grace: 3, Skew: 1})
	add(order, "1 wipe, clocks of nodes as far apart as grace is long", Config{End: 6, Wipes: 1, Grace: 2, Ahead: 2, Only: order})
	add("", "1 wipe, grace longer than clocks of nodes are apart", Config{End: 6, Wipes: 1, Grace: 3, Ahead: 1})

	// Renewal and repair.
	renew := func(c Config) Config { c.Renew = true; return c }
	add("", "renewal", renew(Config{End: 6}))
	add("", "renewal, leases end early, margin", renew(Config{End: 6, TTL: 3, Early: 1, Margin: 1}))
	add(me, "renewal, 1 wipe, no grace", renew(Config{End: 6, Wipes: 1}))
	add("", "renewal, 1 wipe, grace as long as the TTL", renew(Config{End: 6, Wipes: 1, Grace: 2}))
	add("", "renewal, 1 wipe, grace, proposals ahead", renew(Config{End: 6, Wipes: 1, Grace: 3, Skew: 2, Only: me}))
	add("", "renewal, 1 wipe, grace, three attempts", renew(Config{End: 5, Attempts: 3, Wipes: 1, Grace: 2}))
	add("", "re-planted before a majority has confirmed", renew(Config{End: 6, Wipes: 1, Grace: 2, Repair: replantUnconfirmed}))
	add(me, "re-planted in grace, never counted in that round", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 3, Skew: 2, Repair: replantInGrace}))
	add("", "renewal takes free nodes and counts them, not in grace", renew(Config{End: 6, Wipes: 1, Grace: 2, Repair: healFree}))
	add(me, "renewal takes nodes in grace and counts them", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 3, Mint: emptyClocks, Block: 1, Repair: healAny}))
	add("", "renewal takes nodes in grace and counts them, no proposal ahead", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 3, Repair: healAny}))
	add(me, "renewal takes nodes in grace and counts them, proposals ahead", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 3, Skew: 2, Repair: healAny}))
	add(me, "renewal takes nodes in grace and counts them, clocks of nodes apart", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 3, Ahead: 2, Repair: healAny}))

	// The same further out.
	big("renewal takes nodes in grace and counts them, if they had confirmed",
		renew(Config{End: 6, TTL: 3, Wipes: 2, Grace: 3, Skew: 2, Repair: healConfirmed, Only: me}))
	big("renewal takes nodes in grace and counts them, no proposal ahead", renew(Config{End: 8, TTL: 3, Wipes: 2, Grace: 3, Repair: healAny}))
	big("renewal takes nodes in grace and counts them, no proposal ahead", renew(Config{End: 6, Attempts: 3, TTL: 3, Wipes: 1, Grace: 3, Repair: healAny}))
	big("renewal, 1 wipe, grace, proposals and clocks ahead", renew(Config{End: 6, TTL: 3, Wipes: 1, Grace: 5, Skew: 2, Ahead: 1}))
	big("renewal, 2 wipes, grace, proposals ahead", renew(Config{End: 7, TTL: 3, Wipes: 2, Grace: 3, Skew: 2, Only: me}))
	big("renewal, 1 wipe, grace, proposals ahead, three attempts",
		renew(Config{End: 6, Attempts: 3, TTL: 3, Wipes: 1, Grace: 3, Skew: 1, Only: me}))
	return cases
}

func (c Config) bounds() string {
	b := []string{fmt.Sprintf("%d attempts", c.Attempts), fmt.Sprintf("TTL %d", c.TTL), fmt.Sprintf("time 0..%d", c.End)}
	add := func(on bool, format string, args ...any) {
		if on {
			b = append(b, fmt.Sprintf(format, args...))
		}
	}
	add(c.Early > 0, "early %d", c.Early)
	add(c.Margin > 0, "margin %d", c.Margin)
	add(c.Wipes > 0, "wipes %d, grace %d", c.Wipes, c.Grace)
	add(c.Skew > 0, "proposals %d ahead", c.Skew)
	add(c.Ahead > 0, "clocks %d apart", c.Ahead)
	add(c.Block > 1, "block %d", c.Block)
	add(c.Only != "", "%s only", c.Only)
	return strings.Join(b, ", ")
}
