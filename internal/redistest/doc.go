// Package redistest gives tests real redis-servers, and links to them that
// misbehave on demand.
//
//	s := redistest.Start(t)                     // a process of this test only, empty
//	p := redistest.NewProxy(t, s.Addr())        // a link to it
//	rdb := p.Client(t)                          // go-redis over that link
//
//	p.Stall()                                   // black hole: bytes are held both ways
//	p.Pass()                                    // and arrive now
//	s.Freeze()                                  // SIGSTOP; Thaw, Kill, Stop, Restart
//
//	f := p.Swallow(redistest.Match{Command: "EVALSHA"})
//	...                                         // the next EVALSHA is executed, its reply lost
//	f.Wait(t, 1)                                // it has happened: no need to sleep
//
// Everything ends with its test, and also when the test binary is killed. A
// test never ends a server it did not start.
package redistest
