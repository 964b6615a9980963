package redisstore

import "time"

// SubscriptionIdle is how long tests wait for a subscription to close; it is
// shortened so that nothing is left when a test looks.
const SubscriptionIdle = time.Second

func init() { subscriptionIdle = SubscriptionIdle }
