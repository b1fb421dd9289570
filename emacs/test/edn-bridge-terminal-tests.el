;;; edn-bridge-terminal-tests.el --- Every key in a terminal  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A terminal Emacs under tmux, with the real program: keys in, screen out.
;; Every key and every command of the package is used at least once: that
;; Emacs records what is used, and at the end the record is compared with
;; the keymaps and with all the commands that there are.
;;
;; Skipped where there is no tmux or no program.

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-terminal-tests-program (getenv "EDN_BRIDGE_PROGRAM")
  "The program, or nil.")

(defvar edn-bridge-terminal-tests-socket nil
  "Name of the tmux server of the running test.")

(defvar edn-bridge-terminal-tests-folder nil
  "Folder of the running test.")

(defvar edn-bridge-terminal-tests-back 0
  "How often the running test has gone back to the chat.")

(defvar edn-bridge-terminal-tests-turns 0
  "How many turns had ended by the last step `mark' or `ended'.")

(defvar edn-bridge-terminal-tests-setup nil
  "Form that the Emacs of the test runs before it opens a chat.")

(defvar edn-bridge-terminal-tests-size '(100 . 60)
  "Columns and rows of the terminal.")

;;;; Typing and seeing

(defun edn-bridge-terminal-tests-tmux (&rest args)
  "Run tmux with ARGS and return its output."
  (with-temp-buffer
    (apply #'call-process "tmux" nil t nil
           "-L" edn-bridge-terminal-tests-socket args)
    (buffer-string)))

(defun edn-bridge-terminal-tests-type (&rest keys)
  "Type KEYS, as tmux names them; other strings are typed as they are."
  (apply #'edn-bridge-terminal-tests-tmux "send-keys" "-t" "edn" keys))

(defun edn-bridge-terminal-tests-screen ()
  "Return the text on the screen."
  (edn-bridge-terminal-tests-tmux "capture-pane" "-t" "edn" "-p"))

(defun edn-bridge-terminal-tests-see (regexp)
  "Wait until the screen shows what REGEXP matches, and return it."
  (let ((deadline (+ (float-time) 60))
        (case-fold-search nil)
        (screen ""))
    (while (not (string-match-p
                 regexp
                 (setq screen (edn-bridge-terminal-tests-screen))))
      (when (> (float-time) deadline)
        (ert-fail (list "not seen" regexp screen)))
      (sleep-for 0.03))
    screen))

(defun edn-bridge-terminal-tests-reach-draft ()
  "Wait until the cursor is in the draft.
What the bridge answers may move it there after the screen shows the rest."
  (let ((deadline (+ (float-time) 60))
        (reached nil))
    (while (not reached)
      (let ((row (string-to-number
                  (edn-bridge-terminal-tests-tmux
                   "display-message" "-p" "-t" "edn" "#{cursor_y}")))
            (rule (cl-position-if
                   (apply-partially #'string-prefix-p "────")
                   (split-string (edn-bridge-terminal-tests-screen) "\n")
                   :from-end t)))
        (setq reached (and rule (> row rule))))
      (when (> (float-time) deadline)
        (ert-fail (list "the draft was not reached"
                        (edn-bridge-terminal-tests-screen))))
      (unless reached
        (sleep-for 0.03)))))

(defun edn-bridge-terminal-tests-quit (prompt)
  "Press C-g until PROMPT, a regexp, is gone.
A person does so too: Emacs loses one that comes while it fontifies in the
background (`while-no-input')."
  (let ((deadline (+ (float-time) 60))
        (again 0)
        (case-fold-search nil))
    (while (string-match-p prompt (edn-bridge-terminal-tests-screen))
      (when (> (float-time) deadline)
        (ert-fail (list "not left" prompt)))
      (when (> (float-time) again)
        (edn-bridge-terminal-tests-type "C-g")
        (setq again (+ (float-time) 2)))
      (sleep-for 0.03))))

(defun edn-bridge-terminal-tests-count ()
  "Return how many turns have ended, as the mode line says."
  (let ((screen (edn-bridge-terminal-tests-see " ended-[0-9]+")))
    (string-match " ended-\\([0-9]+\\)" screen)
    (string-to-number (match-string 1 screen))))

(defun edn-bridge-terminal-tests-end-of-turn ()
  "Wait until another turn has ended, and the header line says so.
That alone may still say what it said before the turn."
  (let ((deadline (+ (float-time) 60))
        (count 0))
    (while (<= (setq count (edn-bridge-terminal-tests-count))
               edn-bridge-terminal-tests-turns)
      (when (> (float-time) deadline)
        (ert-fail (list "no turn ended" (edn-bridge-terminal-tests-screen))))
      (sleep-for 0.03))
    (setq edn-bridge-terminal-tests-turns count)
    (edn-bridge-terminal-tests-see "ready · idle")))

(defun edn-bridge-terminal-tests-do (&rest steps)
  "Do STEPS: a list types its strings, a string waits to be seen.
The symbol `draft' waits until point is in the draft; `quit' leaves the prompt
that the string before it has waited for.  `ended' waits for the end of a turn
that was begun after the last `ended' or `mark'."
  (dolist (step steps)
    (cond ((stringp step)
           (edn-bridge-terminal-tests-see step))
          ((eq step 'quit)
           (edn-bridge-terminal-tests-quit (cadr (memq step (reverse steps)))))
          ((eq step 'mark)
           (setq edn-bridge-terminal-tests-turns
                 (edn-bridge-terminal-tests-count)))
          ((eq step 'ended)
           (edn-bridge-terminal-tests-end-of-turn))
          ((eq step 'draft)
           (edn-bridge-terminal-tests-reach-draft))
          (t
           (apply #'edn-bridge-terminal-tests-type step)))))

(defun edn-bridge-terminal-tests-command (name &rest steps)
  "Call the command NAME by M-x, and do STEPS."
  (edn-bridge-terminal-tests-do '("M-x") "^M-x")
  (edn-bridge-terminal-tests-type "-l" name)
  (edn-bridge-terminal-tests-do (concat "M-x " (regexp-quote name)) '("Enter"))
  (apply #'edn-bridge-terminal-tests-do steps))

(defun edn-bridge-terminal-tests-say (text)
  "Write TEXT as the draft and send it."
  (edn-bridge-terminal-tests-type "-l" text)
  (edn-bridge-terminal-tests-do (concat "^" (regexp-quote text) " *$")
                                '("C-c" "Enter")
                                (concat "You\\( (.*)\\)?\n" (regexp-quote text))))

(defun edn-bridge-terminal-tests-click (regexp &optional button)
  "Click with BUTTON of the mouse (0, the first) on what REGEXP matches."
  (let* ((screen (edn-bridge-terminal-tests-see regexp))
         (before (substring screen 0 (string-match regexp screen)))
         (row (length (split-string before "\n")))
         (column (1+ (length (car (last (split-string before "\n")))))))
    (edn-bridge-terminal-tests-type
     "-l" (format "\e[<%d;%d;%dM\e[<%d;%d;%dm"
                  (or button 0) column row (or button 0) column row))))

(defun edn-bridge-terminal-tests-chat ()
  "Go back to the chat, alone on the screen, with point in the draft.
The mode line says when that is done: another message may take the place of
one in the echo area at once."
  (edn-bridge-terminal-tests-command
   "terminal-tests-chat"
   (format " back-%d\\>" (cl-incf edn-bridge-terminal-tests-back))))

;;;; What there is, and what was used

(defconst edn-bridge-terminal-tests-keymaps
  '(edn-bridge-chat-mode-map edn-bridge-markdown-link-map
    edn-bridge-markdown-fence-map edn-bridge-markdown-table-map
    edn-bridge-markdown-table-mode-map
    edn-bridge-messages-thinking-map edn-bridge-tools-line-map edn-bridge-tools-body-map
    edn-bridge-interact-map edn-bridge-rewrite-diff-mode-map
    edn-bridge-rewrite-edit-map edn-bridge-tree-mode-map
    edn-bridge-rules-mode-map edn-bridge-audit-mode-map edn-bridge-mcp-mode-map
    edn-bridge-queue-map edn-bridge-queue-edit-map edn-bridge-ediff-edit-map
    edn-bridge-jobs-mode-map edn-bridge-query-mode-map edn-bridge-chats-mode-map
    edn-bridge-usage-mode-map edn-bridge-view-map edn-bridge-ask-added-map
    edn-bridge-compose-map)
  "The keymaps of the package; a test says if there is another.")

(defun edn-bridge-terminal-tests-keys (map &optional prefix)
  "Return pairs of the commands that MAP has, and their keys after PREFIX."
  (let ((pairs nil))
    (map-keymap-internal
     (lambda (event definition)
       (let ((keys (vconcat prefix (vector event)))
             ;; What stands before a definition is its label.
             (definition (if (stringp (car-safe definition))
                             (cdr definition)
                           definition)))
         (cond ((keymapp definition)
                (setq pairs (nconc (edn-bridge-terminal-tests-keys
                                    definition keys)
                                   pairs)))
               ((commandp definition)
                (push (cons definition (key-description keys)) pairs)))))
     map)
    pairs))

(defun edn-bridge-terminal-tests-all-keys ()
  "Return pairs of commands and keys, of all keymaps and of the menu."
  (append
   (mapcan (lambda (map) (edn-bridge-terminal-tests-keys (symbol-value map)))
           edn-bridge-terminal-tests-keymaps)
   (edn-bridge-terminal-tests-keys edn-bridge-command-map (kbd "C-c e"))
   (mapcan (lambda (group)
             (mapcar (lambda (row) (cons (nth 1 row) (nth 0 row)))
                     (cddr group)))
           edn-bridge--menu)))

(defun edn-bridge-terminal-tests-names (predicate)
  "Return the symbols of the package that PREDICATE holds for.
Those with two hyphens, which are private, and those of tests are left out."
  (let ((found nil))
    (mapatoms
     (lambda (symbol)
       (let ((name (symbol-name symbol)))
         (when (and (string-match-p "\\`edn-bridge\\(-\\|\\'\\)" name)
                    (not (string-match-p
                          "--\\|\\`edn-bridge-\\(test\\|example\\|[a-z]+-tests\\)"
                          name))
                    (funcall predicate symbol))
           (push symbol found)))))
    (sort found #'string-lessp)))

(defun edn-bridge-terminal-tests-all-commands ()
  "Return the commands of the package; major modes are none."
  (edn-bridge-terminal-tests-names
   (lambda (symbol)
     (and (commandp symbol)
          (not (string-match-p "-mode\\'" (symbol-name symbol)))
          (not (get symbol 'derived-mode-parent))))))

(ert-deftest edn-bridge-terminal-knows-all-keymaps ()
  (should (equal (edn-bridge-terminal-tests-names
                  (lambda (symbol)
                    (and (boundp symbol)
                         (keymapp (symbol-value symbol))
                         (edn-bridge-terminal-tests-keys
                          (symbol-value symbol)))))
                 (sort (cons 'edn-bridge-command-map
                             (copy-sequence edn-bridge-terminal-tests-keymaps))
                       #'string-lessp))))

(defconst edn-bridge-terminal-tests-elsewhere
  (concat "\\`edn-bridge-\\(?:queue-\\|ediff-\\|undo\\'\\|redo\\'\\|rules-remove"
          "\\|audit-toggle\\|daemon\\'\\|sessions-archive\\|sessions-delete\\|tree-delete"
          "\\|mcp\\|agents-\\|usage\\|input-continue\\'"
          "\\|sessions-take\\|sessions-hand-over\\|ask-send-added\\|add-screenshot\\)")
  "Matches commands whose keys are used where there is something to use them on.
That is in the tests of drafts, queue, rules, questions, servers, agents, usage, cut
turns, sessions of other hosts and the daemon.")

(defun edn-bridge-terminal-tests-left-out (record)
  "Return the keys and commands that are not in the file RECORD."
  (let ((lines (with-temp-buffer
                 (insert-file-contents record)
                 (mapcar #'read (split-string (buffer-string) "\n" t)))))
    (append
     (seq-remove (lambda (pair)
                   (or (member (list 'key (car pair) (cdr pair)) lines)
                       (string-match-p edn-bridge-terminal-tests-elsewhere
                                       (symbol-name (car pair)))
                       ;; The digits do alike, and the terminal has no S-RET.
                       (string-match-p "\\`\\(?:[2-9]\\|S-<return>\\)\\'"
                                       (cdr pair))))
                 (edn-bridge-terminal-tests-all-keys))
     (seq-remove (lambda (command)
                   (or (string-match-p edn-bridge-terminal-tests-elsewhere
                                       (symbol-name command))
                       (member (list 'done command) lines)))
                 (edn-bridge-terminal-tests-all-commands)))))

;;;; The test

(defmacro edn-bridge-terminal-tests-with-emacs (script &rest body)
  "Run BODY with an Emacs in a terminal, in a chat that plays SCRIPT."
  (declare (indent 1) (debug t))
  `(progn
     (skip-unless (and edn-bridge-terminal-tests-program
                       (executable-find "tmux")))
     (let* ((edn-bridge-terminal-tests-socket
             (format "edn-bridge-%d" (emacs-pid)))
            (edn-bridge-terminal-tests-folder
             (file-name-as-directory (make-temp-file "edn-bridge" t)))
            (edn-bridge-terminal-tests-back 0)
            (edn-bridge-terminal-tests-turns 0))
       (unwind-protect
           (progn
             (edn-bridge-terminal-tests-start ,script)
             ,@body)
         (edn-bridge-terminal-tests-end)))))

(defun edn-bridge-terminal-tests-start (script)
  "Start the Emacs of the test, with a chat that plays SCRIPT."
  (let* ((folder edn-bridge-terminal-tests-folder)
         (project (expand-file-name "project/" folder))
         (bin (expand-file-name "bin/" folder))
         (form
          `(progn
             (xterm-mouse-mode)
             (global-set-key (kbd "C-c e") 'edn-bridge-command-map)
             (setq edn-bridge-program ,edn-bridge-terminal-tests-program
                   edn-bridge-program-args
                   '("--state-dir" ,(expand-file-name "state" folder)
                     "--provider" "scripted" "--script"
                     ,(expand-file-name (concat "scripts/" script)
                                        edn-bridge-test-directory))
                   edn-bridge-program-source ,project
                   edn-bridge-chat-page 6
                   ;; However long it takes until the release is read.
                   mouse-1-click-follows-link t
                   confirm-kill-processes nil
                   suggest-key-bindings nil
                   extended-command-suggest-shorter nil)
             (defvar terminal-tests-back 0)
             (defun terminal-tests-chat ()
               (interactive)
               (switch-to-buffer (car (edn-bridge-chat-buffers)))
               (delete-other-windows)
               (goto-char (point-max))
               (setq terminal-tests-back (1+ terminal-tests-back))
               (force-mode-line-update t))
             (setq-default mode-line-misc-info
                           (append mode-line-misc-info
                                   '((:eval (format " back-%d ended-%d"
                                                    terminal-tests-back
                                                    terminal-tests-ended)))))
             (defvar terminal-tests-ended 0)
             (with-eval-after-load 'edn-bridge-chat
               (edn-bridge-chat-handle
                "turn/ended"
                (lambda (_data)
                  (setq terminal-tests-ended (1+ terminal-tests-ended))
                  (force-mode-line-update t))))
             (add-hook 'edn-bridge-chat-ready-hook
                       (lambda () (message "The session is here")))
             ;; The tests type faster than people.
             (with-eval-after-load 'edn-bridge-interact
               (setq edn-bridge-interact--settling 0))
             ,edn-bridge-terminal-tests-setup
             (edn-bridge))))
    (make-directory (expand-file-name ".edn-bridge" project) t)
    (write-region "{}\n" nil (expand-file-name ".edn-bridge/config.edn" project)
                  nil 'quiet)
    (make-directory bin t)
    (write-region "first line\nsecond line\n" nil
                  (expand-file-name "notes.txt" project) nil 'quiet)
    (write-region "" nil (expand-file-name "Cargo.toml" project) nil 'quiet)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert "\211PNG\r\n\032\n")
      (write-region nil nil (expand-file-name "dot.png" project) nil 'quiet))
    ;; What M-x edn-bridge-build calls.
    (let ((cargo (expand-file-name "cargo" bin)))
      (write-region "#!/bin/sh\necho the cargo of the test: \"$@\"\n" nil
                    cargo nil 'quiet)
      (set-file-modes cargo #o755))
    (edn-bridge-terminal-tests-tmux
     "-u" "-f" "/dev/null" "new-session" "-d" "-s" "edn" "-x" (number-to-string (car edn-bridge-terminal-tests-size))
     "-y" (number-to-string (cdr edn-bridge-terminal-tests-size))
     "-c" project
     "env" "LC_ALL=C.UTF-8" (concat "PATH=" bin ":" (getenv "PATH"))
     (concat "EDN_BRIDGE_RECORD=" (expand-file-name "record" folder))
     (expand-file-name invocation-name invocation-directory)
     "-Q" "-nw" "-L" (expand-file-name ".." edn-bridge-test-directory)
     "-l" (expand-file-name "terminal-recorder.el" edn-bridge-test-directory)
     "--eval" (prin1-to-string form))
    (edn-bridge-terminal-tests-see "ready · \\(?:idle\\|asks\\)")))

(defun edn-bridge-terminal-tests-end ()
  "End the Emacs of the test."
  (edn-bridge-terminal-tests-tmux "kill-server")
  ;; The program sees the end of its input and still writes its journal.
  (let ((deadline (+ (float-time) 10)))
    (while (and (file-exists-p edn-bridge-terminal-tests-folder)
                (< (float-time) deadline))
      (ignore-errors
        (delete-directory edn-bridge-terminal-tests-folder t))
      (sleep-for 0.02))))

(defun edn-bridge-terminal-tests-draft ()
  "Use the keys of the draft."
  (edn-bridge-terminal-tests-do
   '("Hi" "C-j" "BSpace" "Enter" "there") "Hi\nthere"
   '("C-c" "Enter")
   "Thought …\n\nAssistant\nHello, world.*the notes\\." 'ended
   '("C-c" "C-v") "Hello, \\*\\*world\\*\\*" '("C-c" "C-v") "Hello, world"
   '("C-r" "the notes" "Enter") '("Enter") "second line"
   '("C-x" "k" "Enter"))
  (edn-bridge-terminal-tests-chat)
  ;; The line above the code.  Its two letters may be in the folder's name too.
  (edn-bridge-terminal-tests-do
   '("C-r" "(x)" "Enter" "C-p" "C-a" "Enter") "^The code is on the kill ring")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do '("C-r" "(x)" "Enter" "C-c" "M-w")
                                "^The code is on the kill ring")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-click "^el$")
  (edn-bridge-terminal-tests-do "^The code is on the kill ring")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-r" "wide" "Enter") '("Enter") "(Table: < > scroll" '(">" "<" "C-x" "1"))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-click "\\[Whole table]")
  (edn-bridge-terminal-tests-see "(Table: < > scroll")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-r" "Thought" "Enter") '("Enter") "Thought\nI wonder\\."
   '("Tab") "Thought …")
  (edn-bridge-terminal-tests-click "Thought")
  (edn-bridge-terminal-tests-see "Thought\nI wonder\\.")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-click "the notes")
  (edn-bridge-terminal-tests-do "second line" '("C-x" "k" "Enter"))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("M-p") "sandbox: .*\n─+\nHi\nthere" '("M-n")
   '("/thi" "Tab") "^/thinking"
   '(" high" "C-c" "Enter") "Thinking level set to high"
   '("M-r") "^Input:" '("Hi" "Tab" "Enter") "sandbox: .*\n─+\nHi\nthere"
   'draft '("M-n")
   '("look at @no" "Tab") "look at @notes.txt"
   '("C-a" "C-k")
   '("/thinking" "C-c" "Enter") "Select a thinking level:"
   ;; C-g drops what is typed after it and not read yet.
   'quit "Nothing was chosen"))

(defun edn-bridge-terminal-tests-questions ()
  "Use the keys of questions."
  ;; Each answers the question of a call that the script makes.
  (pcase-dolist
      (`(,text . ,steps)
       '(("one" ("C-c" "C-a") ("C-c" "C-y") "Ran one\\.")
         ("two" ("C-c" "C-a" "y") "Ran two\\.")
         ("three" ("C-c" "C-a" "n") "Why not" ("no" "Enter") "Ran three\\.")
         ("four" ("C-c" "C-a" "s") "Ran four\\.")
         ("five" ("C-c" "C-a" "q") "rejected")))
    (edn-bridge-terminal-tests-chat)
    (edn-bridge-terminal-tests-say text)
    (edn-bridge-terminal-tests-see "Allow once (y)")
    (apply #'edn-bridge-terminal-tests-do steps))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-say "which")
  (edn-bridge-terminal-tests-do "2\\. green" '("C-c" "C-a" "1") "Was told\\."))

(defun edn-bridge-terminal-tests-tools ()
  "Use the keys of tool calls."
  (edn-bridge-terminal-tests-chat)
  ;; The last call, which was answered, and then the one with an output.
  (edn-bridge-terminal-tests-do '("C-c" "C-t") "▾ ask-user" '("C-c" "C-t"))
  (edn-bridge-terminal-tests-do
   '("C-r" "bash     echo notes" "Enter") '("Enter") "▾ bash .*notes" '("Enter")
   '("Tab") "^ *notes.txt:2:3"
   '("C-n" "Enter") "second line"
   '("C-x" "k" "Enter") '("C-x" "1") '("Tab") "▸ bash .*notes")
  (edn-bridge-terminal-tests-click "bash *echo notes")
  (edn-bridge-terminal-tests-see "▾ bash .*notes")
  (edn-bridge-terminal-tests-click "bash *echo notes")
  (edn-bridge-terminal-tests-see "▸ bash .*notes"))

(defun edn-bridge-terminal-tests-turns ()
  "Use the keys of turns that run, and of jobs."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-say "six")
  (edn-bridge-terminal-tests-do
   "Allow once (y)" '("C-c" "C-a" "y") "Ran six\\."
   '("C-c" "C-j") "running *sleep 600"
   '("Enter") "^status  running" '("q") "running *sleep 600"
   ;; The keys of every view.
   '("n" "p" "g" "?") "^Major mode of a session.s background jobs" '("C-x" "o" "q")
   "running *sleep 600" '("M-<" "n" "d")
   "cancelled")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-say "slowly")
  (edn-bridge-terminal-tests-do
   "Begin" '("later" "C-c" "C-q") "^For after the turn: later"
   ;; An abort holds the queue, until it is resumed.
   '("C-c" "C-k") "(aborted)" "^Held back since the abort"
   '("C-c" "C-c") "(aborted)\n\nYou\nlater" "Start" '("C-c" "C-i") "interrupted"))

(defun edn-bridge-terminal-tests-models ()
  "Use the keys under C-c C-o."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "C-o" "n") "^Model: "
   '("C-c" "C-o" "m") "^Model:$" '("scripted/" "Tab" "Enter") "^Model: scripted"
   '("C-c" "C-o" "t") "^Thinking:" '("low" "Enter") "^Thinking: low"
   '("C-c" "C-o" "p") "^Permissions:" '("read" "Tab" "Enter")
   "^Permissions: read-only"
   '("C-c" "C-o" "p") "^Permissions:" '("ask" "Enter") "^Permissions: ask"
   '("C-c" "C-o" "a") "No agent is configured"
   '("C-c" "C-o" "o") "No external agent answers in this chat"
   '("C-c" "C-o" "s") "^Usage of .*\n\n *Messages +[0-9]" '("q")
   '("C-c" "C-o" "c") "^Keep in the summary" '("Enter")
   "compact:\\|compacted"))

(defun edn-bridge-terminal-tests-sessions ()
  "Use the keys and commands of sessions."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command
   "edn-bridge-sessions-rename" "^Name of this session:" '("Keys" "Enter")
   "· Keys")
  (edn-bridge-terminal-tests-command "edn-bridge-sessions-export" "^Exported to")
  (edn-bridge-terminal-tests-command "edn-bridge-sessions-copy-transcript"
                                     "^The transcript is on the kill ring")
  (edn-bridge-terminal-tests-do
   '("C-c" "C-f") "^Fork after:" '("Ran one" "Tab" "Enter") "Ran one\\."
   '("C-c" "C-n") "New session"
   '("C-c" "C-s") "^Session:" '("Keys" "Tab" "Enter") "· Keys"
   '("C-r" "later" "Enter" "C-c" "C-x") "^This is the fork.*\\|─\nlater" "─\nlater"
   'draft '("C-a" "C-k")
   '("C-c" "C-s") "^Session:" '("Keys" "Tab" "Enter") "· Keys")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "C-w") "● Keys" '("r") "^Name of this session:" '("2" "Enter")
   "● Keys2" '("D") "This chat is on that session"
   '("A") "^Archived sessions are shown"
   ;; The next key acts on the line, which is drawn anew after the message.
   '("a") "● Keys2.*  archived" '("a") "● Keys2  [0-9]"
   '("A") "^Archived sessions are hidden" "● Keys2  [0-9]"
   '("v") "^Session s-" '("Enter"))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command
   "edn-bridge-sessions-rename" "^Name of this session:" '("BSpace" "Enter")
   "· Keys *$")
  (edn-bridge-terminal-tests-command
   "edn-bridge-rules" "d remove" '("a") "s this session or all")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command
   "edn-bridge-sessions-read" "^Session:" '("Keys" "Tab" "Enter") "^Session s-")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "C-w") "● Keys" '("M-<" "n" "p") '("Enter") "· New session")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do '("C-c" "C-w") "○ Keys")
  (edn-bridge-terminal-tests-click "Keys  [0-9]+")
  (edn-bridge-terminal-tests-do "· Keys")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("kept") "^kept" '("C-c" "C-r") "^The session is here" "sandbox: .*\n─+\nkept"
   'draft '("C-a" "C-k"))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   ;; On a button, Emacs 30 has a command of its own for the second key.
   '("M-<") "Earlier messages" '("Tab" "BTab" "M->" "BTab")
   "^Permissions: accept-edits" '("BTab") "^Permissions: read-only"
   '("BTab") "^Permissions: ask"
   '("M->" "C-c" "Up" "C-c" "Down"))
  (edn-bridge-terminal-tests-command "edn-bridge-messages-show-earlier"
                                     '("M-<") "You\nwhich")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "C-b") "^No message is queued" '("C-c" "C-c")
   '("C-c" "C-u") '("C-c" "M-u")
   ;; The turn that was interrupted.  After it the script begins anew.
   'mark '("C-c" "M-r") "Thought …\n\nHello" 'ended
   '("C-c" "C-r") "^The session is here")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "'") "C-c C-c sends it" '("composed" "C-c" "C-k") "^─+\ncomposed"
   'draft '("C-a" "C-k")
   '("C-c" "'") "C-c C-c sends it" '("/thinking low" "C-c" "C-c")
   "Thinking level set to low"
   '("C-c" "C-d") "^The agent does not get" '("C-c" "C-d") "^The agent gets"))

(defun edn-bridge-terminal-tests-beside ()
  "Use what stands beside the chat."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-c" "C-e") ":psi.agent-session/session-id"
   '("C-c" "C-c") "{:psi.agent-session/session-id \""
   '("C-x" "1" "M->" "[:git.repo/bra" "Tab") ":git.repo/branch")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do '("C-c" "C-l") "→ {:id ")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command "edn-bridge-doctor" "Handshake in")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command "edn-bridge-build"
                                     "the cargo of the test: build --release"))

(defun edn-bridge-terminal-tests-others ()
  "Use the commands of other buffers."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command
   "edn-bridge-chat-finish-login" "^Code (may be empty):" '("x" "Enter")
   "No login was begun")
  (edn-bridge-terminal-tests-command "edn-bridge-attention-mode")
  (edn-bridge-terminal-tests-do
   '("C-x" "C-f" "notes.txt" "Enter") "second line")
  (edn-bridge-terminal-tests-command "edn-bridge" "ready · idle")
  ;; The script began anew with the process.
  (edn-bridge-terminal-tests-do 'mark)
  (edn-bridge-terminal-tests-say "once more")
  (edn-bridge-terminal-tests-do "once more\n\nThought …\n\nAssistant\nHello" 'ended)
  (edn-bridge-terminal-tests-say "seven")
  ;; Its buttons have only a question that is open.
  (edn-bridge-terminal-tests-do
   "Allow once (y)" '("C-x" "b" "notes.txt" "Enter") "edn:1\\?")
  (edn-bridge-terminal-tests-command "edn-bridge-attention-next"
                                     "Allow once (y)")
  (edn-bridge-terminal-tests-menu "a")
  (edn-bridge-terminal-tests-menu "y" "Ran one\\.")
  (edn-bridge-terminal-tests-do
   '("C-x" "b" "notes.txt" "Enter") '("C-x" "1") "second line")
  (edn-bridge-terminal-tests-command "edn-bridge-add-file" "^@notes.txt")
  (edn-bridge-terminal-tests-do '("C-x" "b" "notes.txt" "Enter" "C-x" "h"))
  (edn-bridge-terminal-tests-command "edn-bridge-add-region"
                                     "notes.txt:1-2\n```text")
  (edn-bridge-terminal-tests-do '("C-x" "b" "notes.txt" "Enter" "C-x" "h"))
  (edn-bridge-terminal-tests-command
   ;; What was asked may be above the window by the time it is looked at.
   "edn-bridge-ask-region" "^Ask about the region:" '("What?" "Enter")
   "^What\\?\n\\|A question waits")
  (edn-bridge-terminal-tests-command
   "edn-bridge-add-image" "^Image:" '("dot.png" "Enter")
   "dot.png goes with the next message"))

(defun edn-bridge-terminal-tests-prefix ()
  "Use the keys of the prefix map, from the file of the project."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do
   '("C-x" "b" "notes.txt" "Enter") '("C-x" "1") "second line")
  (pcase-dolist
      (`(,key . ,steps)
       '(("c" "ready ·") ("t" "ready ·" ("C-c" "e" "t"))
         ("n" "edn-bridge: project")
         ("l" "^ *State  *Session" ("Enter") "ready ·")
         ("r" "notes.txt:1-2") ("f" "@notes.txt")
         ("a" "^Ask about the region:" quit)
         ("i" "^Image:" quit)
         ("e" "There is no error at point")
         ("s" "notes.txt:1-2") ("o" "^Output of \\*edn-bridge build\\*:")
         ("p" "Choose what the screenshot is to show\\|No program for screenshots")
         ("x" "ready ·") ("F" "ready ·")
         ("d" "Handshake in")
         ("q" "^Ask quickly about the region:" ("How?" "Enter") "^How\\?"
          "Hello, world")
         ("m" "git:\\|Nothing is staged")
         ("w" "^Rewrite the region how:" ("so" "Enter") "^\\+Ran"
          ("C-x" "o" "e") "C-c C-c accepts" ("C-c" "C-k"))
         ("w" "^Rewrite the region how:" ("so" "Enter") "^\\+Ran"
          ("C-x" "o" "q"))
         ("w" "^Rewrite the region how:" ("so" "Enter") "^\\+Ran"
          ("C-x" "o" "a"))
         ("w" "^Rewrite the region how:" ("so" "Enter") "^\\+Ran"
          ("C-x" "o" "e") "C-c C-c accepts" ("C-c" "C-c"))))
    (edn-bridge-terminal-tests-do
     '("C-x" "b" "notes.txt" "Enter") '("C-x" "1") '("C-x" "h")
     (list "C-c" "e" key))
    (apply #'edn-bridge-terminal-tests-do steps))
  (edn-bridge-terminal-tests-command
   "compile" "^Compile command:"
   '("C-a" "C-k" "echo notes.txt:2: wrong" "Enter") "^Save file" '("n")
   "^Compilation finished"
   '("C-x" "o" "M->" "C-r" "wrong" "Enter" "C-c" "e" "e") "^> notes.txt:2: wrong")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command
   "edn-bridge-models-login" "^Log in to:" '("scr" "Tab" "Enter"))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-command "edn-bridge-trust" "Once this is trusted"
                                     '("Tab" "BTab" "C-x" "1"))
  ;; Another chat, which offers the last session.
  (edn-bridge-terminal-tests-do '("C-x" "b" "notes.txt" "Enter")
                                '("C-u" "M-x") "^C-u M-x")
  (edn-bridge-terminal-tests-type "-l" "edn-bridge")
  (edn-bridge-terminal-tests-do
   '("Enter") "C-c C-p continues " '("C-c" "C-p") "open in another program"))

(defun edn-bridge-terminal-tests-menu (key &rest steps)
  "Choose KEY in the menu of a chat and do STEPS."
  (apply #'edn-bridge-terminal-tests-do
         '("C-c" "?") "Q queue "
         (edn-bridge-terminal-tests-menu-keys key)
         steps))

(defun edn-bridge-terminal-tests-menu-keys (key)
  "Return the keys that choose KEY of a group in the menu, a string."
  (let ((label (if (equal key "Enter") "RET" key)))
    (cl-loop for (_title menu . rows) in edn-bridge--menu
             when (assoc label rows)
             return (if (stringp menu) (list menu key) (list key)))))

(defun edn-bridge-terminal-tests-whole-menu ()
  "Choose all of the menu that was not chosen yet."
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-do '("M-<" "M->"))
  (pcase-dolist
      (`(,key . ,steps)
       '(("h" "^Input:" ("Hi" "Tab" "Enter") "^Hi\nthere")
         ("k") ("i") ("W" "No message is queued") ("L") ("A") ("z") ("Z")
         ("o" "d remove") ("O" "s this session or all")
         ("T" "Once this is trusted\\|no configuration")
         ("X" "^Delete session:" quit) ("H" "^Archive session" quit)
         ("D" "^The agent does not get") ("v" "^Model: ") ("C" "^The transcript is on")
         ("I" "^Image:" ("dot.png" "Enter") "goes with the next message")
         ("E" "^This is the fork\\|The draft is not empty")
         ("t" "▾ bash") ("M") ("b" "No session is offered")
         ("R" "^Session:" ("Keys" "Tab" "Enter") "^Session s-")
         ("u" "^Usage of .*\n\n *Messages +[0-9]")
         ("m" "^Model:" ("scripted/" "Tab" "Enter") "^Model: scripted")
         ("l" "^Thinking:" ("low" "Enter") "^Thinking: low")
         ("p" "^Permissions:" ("ask" "Enter") "^Permissions: ask")
         ("B" "No agent is configured") ("P" "No external agent answers")
         ("c" "^Keep in the summary" ("Enter") "compact:\\|compacted")
         ("K" "State *Session")
         ("'" "C-c C-c sends it" ("C-c" "C-k") "ready ·")
         ("j" "Status *What") ("e" ":psi.agent-session")
         ("g" "→ {:id ") ("d" "Handshake in")
         ("s" "^Session:" ("Keys" "Tab" "Enter"))
         ("N" "^Name of this session:" (" again" "Enter") "· Keys again")
         ("x" "^Exported to") ("w" "● Keys again")
         ("r" "^The session is here")
         ("f" "^Fork after:" ("Ran one" "Tab" "Enter") "Ran one\\.")
         ("n" "· New session")))
    (edn-bridge-terminal-tests-chat)
    (apply #'edn-bridge-terminal-tests-menu key steps))
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-type "-l" "by the menu")
  (edn-bridge-terminal-tests-menu "Enter" "You\nHi\nthereby the menu")
  (edn-bridge-terminal-tests-chat)
  (edn-bridge-terminal-tests-type "-l" "queued by the menu")
  (edn-bridge-terminal-tests-menu "Q" "You.*\nqueued by the menu"))

(ert-deftest edn-bridge-terminal-uses-every-key-and-command ()
  (edn-bridge-terminal-tests-with-emacs "keys.edn"
    (edn-bridge-terminal-tests-draft)
    (edn-bridge-terminal-tests-questions)
    (edn-bridge-terminal-tests-tools)
    (edn-bridge-terminal-tests-turns)
    (edn-bridge-terminal-tests-models)
    (edn-bridge-terminal-tests-sessions)
    (edn-bridge-terminal-tests-beside)
    (edn-bridge-terminal-tests-others)
    (edn-bridge-terminal-tests-whole-menu)
    (edn-bridge-terminal-tests-prefix)
    (let ((left-out (edn-bridge-terminal-tests-left-out
                     (expand-file-name "record"
                                       edn-bridge-terminal-tests-folder))))
      (ert-info ((format "%S" left-out))
        (should-not left-out)))))

(provide 'edn-bridge-terminal-tests)

;;; edn-bridge-terminal-tests.el ends here
