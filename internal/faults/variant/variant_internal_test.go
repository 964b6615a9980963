package variant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryPatchApplies(t *testing.T) {
	home, err := filepath.Abs("..")
	require.NoError(t, err)
	files, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			replaced, err := patch(t.Context(), home, strings.TrimSuffix(file, ".patch"), t.TempDir())
			require.NoError(t, err)
			require.NotEmpty(t, replaced)
			for from, to := range replaced {
				before, err := os.ReadFile(from)
				require.NoError(t, err)
				after, err := os.ReadFile(to)
				require.NoError(t, err)
				assert.NotEqual(t, string(before), string(after))
			}
		})
	}
}
