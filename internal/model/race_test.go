//go:build race

package model_test

// raceDetector makes every step about ten times as slow, and no model has a race.
const raceDetector = true
