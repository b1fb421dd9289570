;;; edn-bridge-terminal-tests.el --- Keys in a terminal Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A terminal Emacs under tmux, with the real program: keys in, screen out.
;; Skipped where there is no tmux or no program.

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-terminal-tests-program (getenv "EDN_BRIDGE_PROGRAM")
  "The program, or nil.")

(defvar edn-bridge-terminal-tests-socket nil
  "Name of the tmux server of the running test.")

(defun edn-bridge-terminal-tests-tmux (&rest args)
  "Run tmux with ARGS and return its output."
  (with-temp-buffer
    (apply #'call-process "tmux" nil t nil
           "-L" edn-bridge-terminal-tests-socket args)
    (buffer-string)))

(defun edn-bridge-terminal-tests-type (&rest keys)
  "Type KEYS, as tmux names them."
  (apply #'edn-bridge-terminal-tests-tmux "send-keys" "-t" "edn" keys))

(defun edn-bridge-terminal-tests-see (regexp)
  "Wait until the screen shows what REGEXP matches."
  (let ((deadline (+ (float-time) 30))
        (screen ""))
    (while (not (string-match-p
                 regexp
                 (setq screen (edn-bridge-terminal-tests-tmux
                               "capture-pane" "-t" "edn" "-p"))))
      (when (> (float-time) deadline)
        (ert-fail (list "not seen" regexp screen)))
      (sleep-for 0.05))))

(ert-deftest edn-bridge-terminal-keys-do-what-they-say ()
  (skip-unless (and edn-bridge-terminal-tests-program
                    (executable-find "tmux")))
  (let* ((edn-bridge-terminal-tests-socket (format "edn-bridge-%d" (emacs-pid)))
         (folder (make-temp-file "edn-bridge" t))
         (form `(progn
                  (setq edn-bridge-program ,edn-bridge-terminal-tests-program
                        edn-bridge-program-args
                        '("--state-dir" ,(expand-file-name "state" folder)
                          "--provider" "scripted" "--script"
                          ,(expand-file-name "scripts/hello.edn"
                                             edn-bridge-test-directory)))
                  (edn-bridge)))
         (type #'edn-bridge-terminal-tests-type)
         (see #'edn-bridge-terminal-tests-see))
    (unwind-protect
        (progn
          (edn-bridge-terminal-tests-tmux
           "new-session" "-d" "-s" "edn" "-x" "110" "-y" "40" "-c" folder
           (expand-file-name invocation-name invocation-directory)
           "-Q" "-nw" "-L" (expand-file-name ".." edn-bridge-test-directory)
           "-l" "edn-bridge" "--eval" (prin1-to-string form))
          (funcall see "ready · idle")
          (funcall type "Hi" "Enter" "there")
          (funcall see "Hi\nthere")
          (funcall type "C-c" "Enter")
          (funcall see "Assistant\nHello, \\*\\*world")
          (funcall type "M-p")
          (funcall see "mode: .*\nHi\nthere")
          (funcall type "M-n")
          (funcall type "/thi" "Tab")
          (funcall see "/thinking")
          (funcall type " high" "C-c" "Enter")
          (funcall see "Thinking level set to high")
          (funcall type "/thinking" "C-c" "Enter")
          (funcall see "Select a thinking level:")
          (funcall type "C-g")
          (funcall type "C-c" "?")
          (funcall see "queue for after the turn")
          (funcall type "C-g")
          (funcall type "C-c" "C-w")
          (funcall see "● ")
          (funcall type "q" "C-c" "C-e")
          (funcall see ":psi.agent-session/session-id")
          (funcall type "C-c" "C-c")
          (funcall see "{:psi.agent-session/session-id \"")
          (funcall type "C-x" "b" "Enter" "C-x" "1")
          (funcall type "C-c" "C-l")
          (funcall see "→ {:id ")
          (funcall type "q" "C-c" "C-n")
          (funcall see "New session")
          (funcall type "C-c" "C-s")
          (funcall see "Session:")
          (funcall type "Hi" "Tab" "Enter")
          (funcall see "Hello, \\*\\*world")
          (funcall type "kept" "C-c" "C-r")
          (funcall see "connecting\\|ready")
          (funcall see "Hello, \\*\\*world\\(.\\|\n\\)*kept"))
      (edn-bridge-terminal-tests-tmux "kill-server")
      (delete-directory folder t))))

(provide 'edn-bridge-terminal-tests)

;;; edn-bridge-terminal-tests.el ends here
