// Package timing has the tests of guard and redisstore that bound wall-clock
// time: run it alone and without the race detector.
package timing_test
