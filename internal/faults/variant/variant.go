// Package variant builds the client with one rule of the library broken.
package variant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles this module's program with the library changed by the patch of
// that name beside this file, and returns where it is, below dir. The tree stays
// as it is: the compiler is given other contents for the files that are patched.
func Build(ctx context.Context, name, dir string) (program string, err error) {
	home, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, name)
	replaced, err := patch(ctx, home, name, dir)
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "client")
	_, err = run(ctx, home, "go", "build", "-overlay", overlay, "-o", program, ".")
	return program, err
}

// patch writes the files that are patched to dir, and tells which is instead of
// which.
func patch(ctx context.Context, home, name, dir string) (replaced map[string]string, err error) {
	root := filepath.Join(home, "..", "..")
	file := filepath.Join(home, "variant", name+".patch")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	replaced = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/"); ok {
			from, to := filepath.Join(root, path), filepath.Join(dir, path)
			if err := copyFile(from, to); err != nil {
				return nil, err
			}
			replaced[from] = to
		}
	}
	if out, err := apply(ctx, dir, file); err != nil {
		return nil, fmt.Errorf("variant: %s: %w: %s", name, err, out)
	}
	return replaced, nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

func apply(ctx context.Context, dir, file string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "apply", file)
	cmd.Dir = dir
	// In a repository git would pass over what is not part of it.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func run(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("variant: %s: %w: %s", strings.Join(command, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
