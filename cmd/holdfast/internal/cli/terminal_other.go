//go:build !unix

package cli

import "os"

// IsTerminal is false where nobody asked for an answer: output is then plain.
func IsTerminal(*os.File) bool { return false }
