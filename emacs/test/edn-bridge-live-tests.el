;;; edn-bridge-live-tests.el --- Tests with the real program  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; EDN_BRIDGE_PROGRAM names the program.  Without it these are skipped.

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-live-tests-program (getenv "EDN_BRIDGE_PROGRAM")
  "The program, or nil.")

(defvar edn-bridge-live-tests-state nil
  "The state folder of the running test.")

(defmacro edn-bridge-live-tests-with-program (script &rest body)
  "Run BODY where chats are with the program that plays SCRIPT, a file's name."
  (declare (indent 1) (debug t))
  `(progn
     (skip-unless edn-bridge-live-tests-program)
     (let* ((edn-bridge-live-tests-state (make-temp-file "edn-bridge-state" t))
            (folder (file-name-as-directory
                     (make-temp-file "edn-bridge-folder" t)))
            (default-directory folder)
            (edn-bridge-program edn-bridge-live-tests-program)
            (edn-bridge-program-args
             (list "--state-dir" edn-bridge-live-tests-state
                   "--provider" "scripted"
                   "--script" (expand-file-name
                               (concat "scripts/" ,script)
                               edn-bridge-test-directory))))
       (unwind-protect
           (progn ,@body)
         (dolist (buffer (edn-bridge-chat-buffers))
           (let ((conn (buffer-local-value 'edn-bridge-chat--conn buffer)))
             (kill-buffer buffer)
             (when conn
               (let ((process (edn-bridge-rpc-connection-process conn))
                     (deadline (+ (float-time) 10)))
                 (while (and (process-live-p process)
                             (< (float-time) deadline))
                   (accept-process-output nil 0.02))
                 (delete-process process)))))
         (edn-bridge-live-tests-remove edn-bridge-live-tests-state)
         (edn-bridge-live-tests-remove folder)))))

(defun edn-bridge-live-tests-remove (folder)
  "Delete FOLDER, in which a process that ends may still write something."
  (let ((deadline (+ (float-time) 10))
        (last-error nil))
    (while (and (file-exists-p folder) (< (float-time) deadline))
      (condition-case err
          (delete-directory folder t)
        (file-error
         (setq last-error err)
         (accept-process-output nil 0.02))))
    (when (file-exists-p folder)
      (signal (car last-error) (cdr last-error)))))

(defmacro edn-bridge-live-tests-with-chat (script &rest body)
  "Run BODY in a chat that is ready, with the program playing SCRIPT."
  (declare (indent 1) (debug t))
  `(edn-bridge-live-tests-with-program ,script
     (with-current-buffer (edn-bridge-chat-buffer)
       (edn-bridge-live-tests-wait-ready)
       ,@body)))

(defun edn-bridge-live-tests-wait-ready ()
  "Wait until this chat shows its session."
  (let ((ready nil))
    (cl-letf (((symbol-function 'note) (lambda () (setq ready t))))
      (add-hook 'edn-bridge-chat-ready-hook 'note nil t)
      (unwind-protect
          (edn-bridge-test-wait ready)
        (remove-hook 'edn-bridge-chat-ready-hook 'note t)))))

(defmacro edn-bridge-live-tests-until-ended (&rest body)
  "Run BODY in this chat and wait for the end of the turn after it."
  (declare (indent 0) (debug t))
  `(let ((ended nil))
     (cl-letf (((symbol-function 'note) (lambda () (setq ended t))))
       (add-hook 'edn-bridge-chat-turn-end-hook 'note nil t)
       (unwind-protect
           (progn
             ,@body
             (edn-bridge-test-wait ended))
         (remove-hook 'edn-bridge-chat-turn-end-hook 'note t)))))

(defun edn-bridge-live-tests-say (text)
  "Send TEXT as the draft of this chat and wait for the end of the turn."
  (goto-char (point-max))
  (insert text)
  (edn-bridge-live-tests-until-ended
    (edn-bridge-input-send)))

(defconst edn-bridge-live-tests-hello
  "You\nHi\n\nAssistant\nHello, **world**!\n\n```el\n(message \"hi\")\n```\n"
  "What a turn with the script of that name looks like.")

(ert-deftest edn-bridge-live-talks ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (should (edn-bridge-rpc-feature-p edn-bridge-chat--conn "plist-frames"))
    (edn-bridge-live-tests-say "Hi")
    (should (equal (edn-bridge-test-transcript) edn-bridge-live-tests-hello))
    (should (string-match-p "ready · idle" (edn-bridge-chat--header-line)))
    (should edn-bridge-chat--footer)))

(ert-deftest edn-bridge-live-reads-map-frames-too ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (cl-letf* ((handshake (symbol-function 'edn-bridge-rpc--handshake))
               ((symbol-function 'edn-bridge-rpc--handshake)
                (lambda (conn name features)
                  (funcall handshake conn name
                           (remove "plist-frames" features)))))
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (should-not (edn-bridge-rpc-connection-plist-frames
                     edn-bridge-chat--conn))
        (edn-bridge-live-tests-say "Hi")
        (should (equal (edn-bridge-test-transcript)
                       edn-bridge-live-tests-hello))))))

(ert-deftest edn-bridge-live-keeps-session-and-draft-over-a-crash ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Hi")
    (let ((session edn-bridge-chat--session-id))
      (insert "my draft")
      (signal-process (edn-bridge-rpc-connection-process edn-bridge-chat--conn)
                      'SIGKILL)
      (edn-bridge-test-wait
       (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
      (should (string-match-p "Disconnected.*\\[Reconnect\\]"
                              (edn-bridge-test-transcript)))
      (edn-bridge-chat-reconnect)
      (edn-bridge-live-tests-wait-ready)
      (should (equal edn-bridge-chat--session-id session))
      (should (equal (edn-bridge-test-transcript) edn-bridge-live-tests-hello))
      (should (equal (edn-bridge-transcript-draft) "my draft"))
      (edn-bridge-transcript-reset-draft)
      (edn-bridge-live-tests-say "Again")
      (should (string-match-p "You\nAgain\n\nAssistant\nHello"
                              (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-live-says-everything-once-over-kills ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "First")
    (let ((texts nil)
          (lost 0))
      (dotimes (n 24)
        (let ((text (format "Text %d." n)))
          (push text texts)
          (goto-char (point-max))
          (insert text)
          (edn-bridge-input-send)
          ;; Between before it is read and after it is answered.
          (dotimes (_ n)
            (accept-process-output
             (edn-bridge-rpc-connection-process edn-bridge-chat--conn) 0.001))
          (signal-process
           (edn-bridge-rpc-connection-process edn-bridge-chat--conn) 'SIGKILL)
          (edn-bridge-test-wait
           (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
          (setq lost (+ lost (length edn-bridge-input--lost)))
          (edn-bridge-chat-reconnect)
          (edn-bridge-live-tests-wait-ready)
          (edn-bridge-test-wait
           (and (null edn-bridge-input--lost)
                (null edn-bridge-said--pending)
                (not (edn-bridge-chat-running-p))
                (string-search text (edn-bridge-test-transcript))))))
      (should (> lost 0))
      (let ((said nil))
        (edn-bridge-rpc-request
         edn-bridge-chat--conn "get_messages" '(:limit 1000)
         :on-success
         (lambda (data)
           (setq said (mapcar #'edn-bridge-messages-text
                              (plist-get data :messages)))))
        (edn-bridge-test-wait said)
        (dolist (text texts)
          (should (= 1 (cl-count text said :test #'equal)))
          (should (= 2 (length (split-string (edn-bridge-test-transcript)
                                             (regexp-quote text))))))))))

(ert-deftest edn-bridge-live-marks-a-turn-that-was-cut ()
  (edn-bridge-live-tests-with-chat "slow.edn"
    (goto-char (point-max))
    (insert "Take your time")
    (edn-bridge-input-send)
    (edn-bridge-test-wait (string-match-p "Begin" (edn-bridge-test-transcript)))
    (signal-process (edn-bridge-rpc-connection-process edn-bridge-chat--conn)
                    'SIGKILL)
    (edn-bridge-test-wait (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
    (edn-bridge-chat-reconnect)
    (edn-bridge-live-tests-wait-ready)
    (should (string-match-p
             "Take your time\n\nThe bridge ended in this turn.*\\[Continue\\]"
             (edn-bridge-test-transcript)))
    (should-not (string-match-p "\\[Try again\\]" (edn-bridge-test-transcript)))
    (edn-bridge-test-push "Continue")
    ;; The message is there once: its answer is asked for again.
    (edn-bridge-test-wait
     (string-match-p
      "\\`You\nTake your time\n\nThe bridge.*again\\.\n\nAssistant\nBegin"
      (edn-bridge-test-transcript)))
    ;; The mark stays, and no longer offers anything.
    (edn-bridge-chat-reconnect)
    (edn-bridge-live-tests-wait-ready)
    (should (string-match-p "The bridge ended in this turn"
                            (edn-bridge-test-transcript)))))

(defun edn-bridge-live-tests-question ()
  "Return the id of the question that waits in this chat, or nil."
  (and edn-bridge-interact--questions
       (edn-bridge-interact--question-id
        (car edn-bridge-interact--questions))))

(ert-deftest edn-bridge-live-asks-again-what-was-open-at-a-kill ()
  (edn-bridge-live-tests-with-chat "rules.edn"
    (goto-char (point-max))
    (insert "Run it")
    (edn-bridge-input-send)
    (let ((id (edn-bridge-test-wait (edn-bridge-live-tests-question))))
      (signal-process (edn-bridge-rpc-connection-process edn-bridge-chat--conn)
                      'SIGKILL)
      (edn-bridge-test-wait (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
      (edn-bridge-chat-reconnect)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-test-wait (equal id (edn-bridge-live-tests-question)))
      (edn-bridge-test-wait (edn-bridge-chat-running-p))
      (should-not (string-match-p "\\[\\(Try again\\|Continue\\)\\]"
                                  (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-live-marks-a-turn-that-was-cut-out-of-sight ()
  (edn-bridge-live-tests-with-chat "slow.edn"
    (goto-char (point-max))
    (insert "Take your time")
    (edn-bridge-input-send)
    (edn-bridge-test-wait (string-match-p "Begin" (edn-bridge-test-transcript)))
    (let ((session edn-bridge-chat--session-id))
      (signal-process (edn-bridge-rpc-connection-process edn-bridge-chat--conn)
                      'SIGKILL)
      (edn-bridge-test-wait (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
      ;; As if Emacs had been started again: another chat.
      (with-current-buffer (edn-bridge-chat-buffer t)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-sessions-switch session)
        (edn-bridge-test-wait
         (string-match-p "Take your time\n\nThe bridge ended in this turn.*\\[Continue"
                         (edn-bridge-test-transcript)))
        (edn-bridge-test-push "Continue")
        (edn-bridge-test-wait
         (string-match-p
          "\\`You\nTake your time\n\nThe bridge.*again\\.\n\nAssistant\nBegin"
          (edn-bridge-test-transcript)))))))

(ert-deftest edn-bridge-live-aborts ()
  (edn-bridge-live-tests-with-chat "slow.edn"
    (let ((ended nil))
      (add-hook 'edn-bridge-chat-turn-end-hook (lambda () (setq ended t)) nil t)
      (insert "Take your time")
      (edn-bridge-input-send)
      (edn-bridge-test-wait
       (string-match-p "Begin" (edn-bridge-test-transcript)))
      (should (edn-bridge-chat-running-p))
      (edn-bridge-input-abort)
      (edn-bridge-test-wait ended)
      (should (string-match-p "(aborted)" (edn-bridge-test-transcript)))
      (should-not (string-match-p "End" (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-live-view-is-that-of-the-journal ()
  (edn-bridge-live-tests-with-chat "slow.edn"
    (cl-flet ((count (regexp)
                (goto-char (point-min))
                (how-many regexp (point-min) (edn-bridge-transcript-end)))
              (say (text command)
                (edn-bridge-transcript-set-draft text)
                (goto-char (point-max))
                (funcall command)))
      (say "Take your time" #'edn-bridge-input-send)
      (edn-bridge-test-wait (= 1 (count "^Begin")))
      (say "later" #'edn-bridge-input-queue)
      (say "now" #'edn-bridge-input-send)
      (say "/help" #'edn-bridge-input-send)
      (edn-bridge-test-wait (equal 2 (edn-bridge-chat-get
                                      :pending-message-count)))
      (should-not (= 1 (count "^later$")))
      (edn-bridge-input-abort)
      (edn-bridge-test-wait (string-search "Held back since the abort"
                                           (edn-bridge-transcript-footer)))
      ;; The queue is held before the turn has ended.
      (edn-bridge-test-wait (not (edn-bridge-chat-running-p)))
      (should (= 1 (count "^Begin")))
      (should-not (= 1 (count "^later$")))
      (edn-bridge-queue-resume)
      (edn-bridge-test-wait (= 2 (count "^Begin")))
      (should (equal 0 (edn-bridge-chat-get :pending-message-count)))
      (edn-bridge-input-abort)
      (edn-bridge-test-wait (not (edn-bridge-chat-running-p)))
      (let ((live (replace-regexp-in-string
                   ;; Commands are in no journal.
                   "^You\n/help\n\n\\(?:.\\|\n\\)*?\n\\((aborted)\\)" "\\1"
                   (edn-bridge-test-transcript))))
        (edn-bridge-chat-reconnect)
        (edn-bridge-live-tests-wait-ready)
        (should (string-match-p "You\nlater\n\nYou\nnow\n\nAssistant\nBegin"
                                live))
        (should (equal live (edn-bridge-test-transcript)))))))

(ert-deftest edn-bridge-live-lists-forks-and-names-sessions ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Hi")
    (edn-bridge-sessions-rename "First")
    (edn-bridge-test-wait (equal (edn-bridge-chat-get :session-name) "First"))
    (let ((first edn-bridge-chat--session-id)
          (data (edn-bridge-rpc-call edn-bridge-chat--conn "get_messages" nil)))
      (let ((told nil))
        (cl-letf (((symbol-function 'message)
                   (lambda (format &rest args)
                     (push (apply #'format format args) told))))
          (edn-bridge-sessions-fork
           (plist-get (aref (plist-get data :messages) 0) :id))
          (edn-bridge-test-wait
           (not (equal edn-bridge-chat--session-id first))))
        (should (member "This is the fork; C-c C-s goes back" told)))
      ;; What has no answer can be sent again.
      (edn-bridge-test-wait
       (equal (edn-bridge-test-transcript)
              "You\nHi\n\nThis message has no answer. [Try again]\n"))
      (edn-bridge-sessions-switch first)
      (edn-bridge-test-wait (equal (edn-bridge-test-transcript)
                                   edn-bridge-live-tests-hello))
      (let* ((data (edn-bridge-rpc-call edn-bridge-chat--conn
                                        "list_sessions" nil))
             (names (mapcar #'edn-bridge-sessions-label
                            (plist-get data :sessions))))
        (should (member "First" names))))))

(ert-deftest edn-bridge-live-goes-to-the-chat-that-is-on-a-session ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (let ((first (current-buffer))
          (session edn-bridge-chat--session-id))
      (with-current-buffer (edn-bridge-chat-buffer t)
        (edn-bridge-live-tests-wait-ready)
        (should-not (equal edn-bridge-chat--session-id session))
        (save-window-excursion
          (edn-bridge-sessions-switch session)
          (should (eq (window-buffer) first)))))))

(ert-deftest edn-bridge-live-begins-a-new-session ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Hi")
    (let ((first edn-bridge-chat--session-id))
      (edn-bridge-sessions-new)
      (edn-bridge-test-wait (not (equal edn-bridge-chat--session-id first)))
      (edn-bridge-test-wait (equal (edn-bridge-test-transcript) "")))))

(ert-deftest edn-bridge-live-asks-in-eql ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (let ((id edn-bridge-chat--session-id))
      (with-current-buffer (edn-bridge-query--buffer (current-buffer))
        (apply #'edn-bridge-query-send (edn-bridge-query--form))
        (with-current-buffer "*edn-bridge result*"
          (edn-bridge-test-wait
           (string-match-p (regexp-quote id) (buffer-string))))
        (erase-buffer)
        (insert "(not-eql)")
        (edn-bridge-query-send (point-min) (point-max))
        (with-current-buffer "*edn-bridge result*"
          (edn-bridge-test-wait
           (string-match-p "request/invalid-query" (buffer-string))))
        (kill-buffer)))))

(ert-deftest edn-bridge-live-signals-errors-of-calls ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (let ((err (should-error
                (edn-bridge-rpc-call edn-bridge-chat--conn "fork"
                                     '(:entry-id "no-such-entry"))
                :type 'edn-bridge-rpc-error)))
      (should (equal (plist-get (nth 2 err) :error-code) "request/not-found")))))

(ert-deftest edn-bridge-live-shows-many-deltas ()
  (edn-bridge-live-tests-with-chat "many.edn"
    (edn-bridge-live-tests-say "Go")
    (should (equal (edn-bridge-test-transcript)
                   (concat "You\nGo\n\nAssistant\n"
                           (apply #'concat (make-list 5000 "word "))
                           "\n")))))

(ert-deftest edn-bridge-live-shows-failures-of-the-model ()
  (edn-bridge-live-tests-with-chat "failure.edn"
    (edn-bridge-live-tests-say "Go")
    (should (string-match-p "The model is on fire"
                            (edn-bridge-test-transcript)))))

(defun edn-bridge-live-tests-batch (script)
  "Run one prompt in batch with SCRIPT; return status, stdout and stderr."
  (let ((errors (make-temp-file "edn-bridge-stderr"))
        (emacs (expand-file-name invocation-name invocation-directory)))
    (unwind-protect
        (with-temp-buffer
          (list (call-process
                 emacs nil (list t errors) nil
                 "-Q" "--batch" "-L"
                 (expand-file-name ".." edn-bridge-test-directory)
                 "-l" "edn-bridge"
                 "--eval"
                 (format "(setq edn-bridge-program %S edn-bridge-program-args '%S)"
                         edn-bridge-program
                         (append (butlast edn-bridge-program-args)
                                 (list (expand-file-name
                                        (concat "scripts/" script)
                                        edn-bridge-test-directory))))
                 "--eval" "(edn-bridge-batch \"Hi\")")
                (buffer-string)
                (with-temp-buffer
                  (insert-file-contents errors)
                  (buffer-string))))
      (delete-file errors))))

(ert-deftest edn-bridge-live-prints-a-transcript-in-batch ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (should (equal (edn-bridge-live-tests-batch "hello.edn")
                   '(0 "> Hi\n\nHello, **world**!\n\n```el\n(message \"hi\")\n```\n"
                       "")))
    (pcase-let ((`(,status ,_ ,errors)
                 (edn-bridge-live-tests-batch "failure.edn")))
      (should (= status 1))
      (should (equal errors "edn-bridge: The model is on fire.\n")))
    (pcase-let ((`(,status ,_ ,errors)
                 (edn-bridge-live-tests-batch "no-such-script.edn")))
      (should (= status 1))
      (should (= 1 (length (split-string errors "\n" t)))))))

;;;; Proposals that are edited

(defvar ediff-window-setup-function)
(defvar ediff-control-buffer)
(defvar ediff-current-difference)

(ert-deftest edn-bridge-live-reconnects-where-nothing-was-said ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (let ((arguments edn-bridge-program-args))
      (setq edn-bridge-program-args (append arguments '("--mode" "read-only")))
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (cl-flet ((mode ()
                    (edn-bridge-chat-word (edn-bridge-chat-get :mode))))
          (edn-bridge-test-wait (equal "read-only" (mode)))
          ;; A notice is nothing that was said.
          (edn-bridge-chat-notice "A notice")
          (setq edn-bridge-program-args arguments)
          (edn-bridge-chat-reconnect)
          (edn-bridge-live-tests-wait-ready)
          (should-not (string-search "could not be resumed"
                                     (edn-bridge-test-transcript)))
          ;; The session is another one, and so is its state.
          (edn-bridge-test-wait (equal "ask" (mode)))
          (edn-bridge-live-tests-say "Hi")
          (should (string-search "Hello" (edn-bridge-test-transcript))))))))

(defconst edn-bridge-live-tests-edn
  "\\`[{[(#]\\|^ *[{[]?:[a-z][-a-z/.?]*\\(?: \\|$\\)"
  "Matches a text that shows data as EDN.")

(ert-deftest edn-bridge-live-shows-no-result-of-a-command-as-data ()
  (dolist (data '("{:cost 0.1}" "[1 2]" "Stats:\n  :cost 0.1"))
    (should (string-match-p edn-bridge-live-tests-edn data)))
  (edn-bridge-live-tests-with-program "commands.edn"
    (setq edn-bridge-program-args (append edn-bridge-program-args '("--yolo")))
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-live-tests-say "Hi")
      (dolist (command
               (append
                (mapcar (lambda (name) (concat "/" name))
                        ;; The others leave the session or begin a turn.
                        (seq-difference
                         edn-bridge-constants-slash-commands
                         '("quit" "exit" "new" "login" "abort" "retry"
                           "continue" "compact")))
                (list "/name A name" "/mode ask" "/thinking off"
                      "/remember It rains" "/remember" "/status"
                      (concat "/job "
                              (edn-bridge-jobs--id
                               (seq-first
                                (plist-get (edn-bridge-rpc-call
                                            edn-bridge-chat--conn
                                            "list_background_jobs" nil)
                                           :jobs)))))))
        (let ((result nil))
          (cl-letf* ((show (symbol-function 'edn-bridge-chat-notice))
                     ((symbol-function 'edn-bridge-chat-notice)
                      (lambda (text &rest more)
                        (setq result text)
                        (apply show text more))))
            (edn-bridge-input-send-text command)
            (edn-bridge-test-wait result))
          (ert-info (result :prefix (concat command ": "))
            (should-not (string-match-p edn-bridge-live-tests-edn result)))))
      ;; What keys show.
      (save-window-excursion
        (save-current-buffer
          (edn-bridge-models-show-stats))
        (with-current-buffer "*edn-bridge usage of a session*"
          (edn-bridge-test-wait (> (buffer-size) 0))
          (should-not (string-match-p edn-bridge-live-tests-edn
                                      (buffer-string)))
          (kill-buffer))))))

(defun edn-bridge-live-tests-told ()
  "Return what the tools of this chat's session told the model, as one text."
  (let ((told nil))
    (edn-bridge-rpc-request
     edn-bridge-chat--conn "get_messages" nil
     :on-success (lambda (data) (setq told (format "%S" data))))
    (edn-bridge-test-wait told)))

(defmacro edn-bridge-live-tests-with-proposal (&rest body)
  "Run BODY where the agent proposes a change of the file a.txt, and is told."
  (declare (debug t))
  `(edn-bridge-live-tests-with-chat "proposal.edn"
     (write-region "one\ntwo\nthree\nfour\n" nil "a.txt" nil 'quiet)
     (save-window-excursion
       (unwind-protect
           (progn
             (edn-bridge-live-tests-propose)
             ,@body)
         (dolist (buffer (buffer-list))
           (when (string-match-p ": \\(?:now\\|proposed\\)\\*"
                                 (buffer-name buffer))
             (with-current-buffer buffer
               (set-buffer-modified-p nil)
               (kill-buffer))))))))

(defun edn-bridge-live-tests-propose ()
  "Say something in this chat, and wait for the question about a change."
  (goto-char (point-max))
  ;; A model may replace only what it has seen.
  (insert "Go @a.txt")
  (edn-bridge-input-send)
  (edn-bridge-test-wait (= (edn-bridge-interact-pending) 1)))

(defun edn-bridge-live-tests-decide (label function)
  "Push the button LABEL, and call FUNCTION in the buffer with the proposal.
Wait for the end of the turn."
  (let ((ended nil))
    (cl-letf (((symbol-function 'note) (lambda () (setq ended t))))
      (add-hook 'edn-bridge-chat-turn-end-hook 'note nil t)
      (unwind-protect
          (progn
            (save-current-buffer
              (edn-bridge-test-push label)
              (set-buffer (seq-find (lambda (buffer)
                                      (string-match-p ": proposed\\*"
                                                      (buffer-name buffer)))
                                    (buffer-list)))
              (funcall function))
            (edn-bridge-test-wait ended))
        (remove-hook 'edn-bridge-chat-turn-end-hook 'note t)))))

(defun edn-bridge-live-tests-a ()
  "Return the text of the file a.txt."
  (with-temp-buffer
    (insert-file-contents "a.txt")
    (buffer-string)))

(ert-deftest edn-bridge-live-writes-the-hunks-that-are-kept ()
  (edn-bridge-live-tests-with-proposal
   (edn-bridge-live-tests-decide
    "Choose hunks"
    (lambda ()
      (goto-char (point-min))
      (re-search-forward smerge-begin-re)
      (smerge-match-conflict)
      (smerge-keep-upper)
      (re-search-forward smerge-begin-re)
      (smerge-match-conflict)
      (smerge-keep-lower)
      (edn-bridge-ediff-accept)))
   (should (equal (edn-bridge-live-tests-a) "one\ntwo\nthree\nFOUR\n"))
   (let ((told (edn-bridge-live-tests-told)))
     (should (string-search "The user edited your proposal" told))
     (should (string-match-p "-ONE\\(?:\n\\|\\\\n\\)\\+one" told)))))

(ert-deftest edn-bridge-live-writes-what-is-edited-in-ediff ()
  (edn-bridge-live-tests-with-proposal
   (require 'ediff)
   (let ((ediff-window-setup-function 'ediff-setup-windows-plain)
         (asked nil)
         (inhibit-message t))
     (cl-letf (((symbol-function 'y-or-n-p)
                (lambda (prompt) (push prompt asked) t))
               ((symbol-function 'read-multiple-choice)
                (lambda (prompt choices)
                  (push prompt asked)
                  ;; The first time, the person edits on.
                  (assq (if (cdr asked) ?a ?e) choices))))
       (edn-bridge-live-tests-decide
        "Edit with Ediff"
        (lambda ()
          (goto-char (point-max))
          (insert "five\n")
          (with-current-buffer edn-bridge-ediff--control
            (should (= ediff-current-difference 0))
            (should (eq (key-binding "q") #'edn-bridge-ediff-quit))
            (call-interactively (key-binding "q"))
            (should (= 1 (length asked)))
            (call-interactively (key-binding "q")))))
       ;; Once each time.
       (should (= 2 (length asked)))))
   (should (equal (edn-bridge-live-tests-a) "ONE\ntwo\nthree\nFOUR\nfive\n"))
   (should (string-search "The user edited your proposal"
                          (edn-bridge-live-tests-told)))
   ;; The next one is accepted as it is, which is no edit.
   (edn-bridge-live-tests-propose)
   (edn-bridge-live-tests-decide
    "Choose hunks"
    (lambda ()
      (smerge-keep-lower)
      (edn-bridge-ediff-accept)))
   (should (equal (edn-bridge-live-tests-a) "whole\n"))
   (should (= 2 (length (split-string (edn-bridge-live-tests-told)
                                      "The user edited your proposal"))))))

(defun edn-bridge-live-tests-rows ()
  "Return the lines of the tool calls of this chat, with what is unfolded."
  (let ((place (point-min))
        (rows nil))
    (while (setq place (text-property-not-all
                        place (edn-bridge-transcript-end) 'edn-bridge-tool nil))
      (let ((end (next-single-property-change place 'edn-bridge-tool nil
                                              (edn-bridge-transcript-end))))
        (push (buffer-substring-no-properties place end) rows)
        (setq place end)))
    (nreverse rows)))

(ert-deftest edn-bridge-live-written-diff-outlives-the-connection ()
  (edn-bridge-live-tests-with-proposal
   (edn-bridge-live-tests-decide
    "Choose hunks"
    (lambda ()
      (goto-char (point-min))
      (re-search-forward smerge-begin-re)
      (smerge-match-conflict)
      (smerge-keep-upper)
      (re-search-forward smerge-begin-re)
      (smerge-match-conflict)
      (smerge-keep-lower)
      (edn-bridge-ediff-accept)))
   (edn-bridge-live-tests-propose)
   (let ((ended nil))
     (cl-letf (((symbol-function 'note) (lambda () (setq ended t)))
               ((symbol-function 'read-string) (lambda (&rest _) "Not now")))
       (add-hook 'edn-bridge-chat-turn-end-hook 'note nil t)
       (edn-bridge-test-push "Reject")
       (edn-bridge-test-wait ended)
       (remove-hook 'edn-bridge-chat-turn-end-hook 'note t)))
   ;; A rejected call is folded.
   (edn-bridge-tools-toggle)
   (let ((live (edn-bridge-live-tests-rows))
         (same (lambda (live)
                 (edn-bridge-tools-toggle)
                 (should (equal live (edn-bridge-live-tests-rows))))))
     (should (string-search "-four\n+FOUR\n" (car live)))
     (should-not (string-search "ONE" (car live)))
     (should (string-search "rejected: Not now\n--- a/a.txt" (cadr live)))
     (should (string-search "-FOUR\n+whole\n" (cadr live)))
     (edn-bridge-chat-reconnect)
     (edn-bridge-live-tests-wait-ready)
     (funcall same live))))

(ert-deftest edn-bridge-live-works-on-open-buffers ()
  (edn-bridge-live-tests-with-chat "buffers.edn"
    (write-region "one\n" nil "a.txt" nil 'quiet)
    (let ((buffer (find-file-noselect "a.txt")))
      (unwind-protect
          (progn
            (with-current-buffer buffer
              (goto-char (point-max))
              (insert "unsaved\n"))
            (edn-bridge-live-tests-propose)
            (let ((ended nil))
              (cl-letf (((symbol-function 'note) (lambda () (setq ended t))))
                (add-hook 'edn-bridge-chat-turn-end-hook 'note nil t)
                (unwind-protect
                    (progn
                      (edn-bridge-test-push "Allow once")
                      (edn-bridge-test-wait ended))
                  (remove-hook 'edn-bridge-chat-turn-end-hook 'note t))))
            ;; The model read what was not saved.
            (should (string-match-p "1\\(?:\t\\|\\\\t\\)one\\(?:\n\\|\\\\n\\) *2\\(?:\t\\|\\\\t\\)unsaved"
                                    (edn-bridge-live-tests-told)))
            (with-current-buffer buffer
              (should (equal (buffer-string) "one\nedited\n"))
              (should-not (buffer-modified-p))
              (undo-boundary)
              (undo)
              (should (equal (buffer-string) "one\nunsaved\n")))
            (should (equal (edn-bridge-live-tests-a) "one\nedited\n")))
        (with-current-buffer buffer
          (set-buffer-modified-p nil)
          (kill-buffer))))))

(ert-deftest edn-bridge-live-completes-attributes-of-the-graph ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (with-current-buffer (edn-bridge-query--buffer (current-buffer))
      (unwind-protect
          (progn
            (edn-bridge-test-wait edn-bridge-query--attributes)
            (erase-buffer)
            (insert "[:psi.agent-session/session-i")
            (completion-at-point)
            (should (equal (buffer-string) "[:psi.agent-session/session-id"))
            ;; Those that a join leads to are known too, and what they are.
            (dolist (name '(":psi.message/role" ":psi.graph/nodes"))
              (should (stringp (edn-bridge-query--doc name))))
            (let ((told nil))
              (edn-bridge-query-eldoc
               (lambda (text &rest more)
                 (setq told (cons (plist-get more :thing) text))))
              (should (equal told
                             (cons ":psi.agent-session/session-id"
                                   (edn-bridge-query--doc
                                    ":psi.agent-session/session-id"))))))
        (kill-buffer)))))

(ert-deftest edn-bridge-live-exports-the-session ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Hi")
    (let ((file (expand-file-name "page.html"))
          (inhibit-message t))
      (edn-bridge-sessions-export file)
      (edn-bridge-test-wait
       (zerop (hash-table-count
               (edn-bridge-rpc-connection-pending edn-bridge-chat--conn))))
      (edn-bridge-test-wait
       (with-temp-buffer
         (insert-file-contents file)
         (search-forward "world" nil t)))
      (edn-bridge-sessions-copy-transcript)
      (should (string-prefix-p edn-bridge-live-tests-hello (current-kill 0)))
      (let ((opened nil))
        (cl-letf (((symbol-function 'browse-url-of-file)
                   (lambda (page) (setq opened page))))
          (edn-bridge-test-push "Open it"))
        (should (equal (file-truename opened) (file-truename file)))))))

(ert-deftest edn-bridge-live-keeps-the-frames-of-the-connection ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Hi")
    (save-window-excursion
      (edn-bridge-log)
      (let ((buffer (current-buffer)))
        (unwind-protect
            (progn
              (dolist (what '("→ {:id \"1\" :kind :request :op \"handshake\""
                              "← (:kind :event .*assistant/delta"))
                (goto-char (point-min))
                (should (re-search-forward what nil t)))
              ;; What goes over the line while it is looked at is shown.
              (edn-bridge-rpc-call
               (buffer-local-value 'edn-bridge-log--conn buffer) "ping" nil)
              (goto-char (point-min))
              (should (search-forward ":op \"ping\"" nil t)))
          (kill-buffer buffer))))))

(ert-deftest edn-bridge-live-acknowledges-what-is-shown ()
  (edn-bridge-live-tests-with-chat "many.edn"
    (skip-unless (edn-bridge-rpc-feature-p edn-bridge-chat--conn "flow-credit"))
    (edn-bridge-live-tests-say "Go")
    (let ((conn edn-bridge-chat--conn))
      (should (<= (- (edn-bridge-rpc-connection-seq conn)
                     (edn-bridge-rpc-connection-acknowledged conn))
                  edn-bridge-rpc--acknowledge-every))
      ;; The bridge has nothing against it.
      (edn-bridge-test-wait
       (zerop (hash-table-count (edn-bridge-rpc-connection-pending conn)))))))

(ert-deftest edn-bridge-live-write-over-what-the-user-typed-is-refused ()
  (edn-bridge-live-tests-with-program "changed.edn"
    (dolist (saved '(nil t))
      (write-region "one\ntwo\n" nil "a.txt" nil 'quiet)
      (when (file-exists-p "go") (delete-file "go"))
      (let ((edn-bridge-program-args
             (append edn-bridge-program-args '("--mode" "yolo")))
            (buffer (find-file-noselect "a.txt")))
        (unwind-protect
            (with-current-buffer (edn-bridge-chat-buffer t)
              (edn-bridge-live-tests-wait-ready)
              (insert "Go")
              (edn-bridge-input-send)
              (edn-bridge-test-wait
               (string-search "until" (edn-bridge-test-transcript)))
              (with-current-buffer buffer
                (goto-char (point-min))
                (search-forward "two")
                (replace-match "typed by the user")
                (let ((inhibit-message t))
                  (when saved (save-buffer))))
              ;; As each second does while a turn runs.
              (edn-bridge-files-tell)
              (edn-bridge-test-wait
               (zerop (hash-table-count (edn-bridge-rpc-connection-pending
                                         edn-bridge-chat--conn))))
              (write-region "" nil "go" nil 'quiet)
              (edn-bridge-test-wait
               (string-search "Done." (edn-bridge-test-transcript)))
              (edn-bridge-test-wait (not (edn-bridge-chat-running-p)))
              (pcase-let ((`(,_ ,_ ,written ,gone ,edited)
                           (edn-bridge-live-tests-results)))
                (should (string-search "It has changed since you read it"
                                       (format "%S" written)))
                (should (string-search "is not in the file"
                                       (format "%S" gone)))
                (should (string-search "Edited" (format "%S" edited))))
              ;; The user's text is kept, in the buffer and on disk.
              (with-current-buffer buffer
                (should (equal (buffer-string) "1\ntyped by the user\n"))
                (should-not (buffer-modified-p)))
              (should (equal (edn-bridge-live-tests-a)
                             "1\ntyped by the user\n")))
          (with-current-buffer buffer
            (set-buffer-modified-p nil)
            (kill-buffer)))))))

;;;; A file that is exchanged meanwhile

(defun edn-bridge-live-tests-holds (text folder)
  "Return the files below FOLDER that have TEXT."
  (seq-filter (lambda (file)
                (with-temp-buffer
                  (set-buffer-multibyte nil)
                  (insert-file-contents-literally file)
                  (search-forward text nil t)))
              (seq-filter #'file-regular-p
                          (directory-files-recursively folder ""))))

(defun edn-bridge-live-tests-results ()
  "Return the results of the tools of this chat's session."
  (let ((messages nil))
    (edn-bridge-rpc-request
     edn-bridge-chat--conn "get_messages" '(:limit 1000)
     :on-success (lambda (data)
                   (setq messages (append (plist-get data :messages) nil))))
    (edn-bridge-test-wait messages)
    (seq-filter (lambda (message)
                  (equal (edn-bridge-chat-word (plist-get message :role))
                         "tool"))
                messages)))

(ert-deftest edn-bridge-live-exchanged-file-leads-nowhere ()
  (skip-unless (and (eq system-type 'gnu/linux) (executable-find "python3")))
  (edn-bridge-live-tests-with-program "exchanged.edn"
    (let* ((outside (file-name-as-directory (make-temp-file "edn-outside" t)))
           (secret "the SECRET of somebody else\n")
           (edn-bridge-program-args
            (append edn-bridge-program-args '("--mode" "accept-edits")))
           (edn-bridge-files-share t)
           (results "")
           (exchanges "")
           (buffer nil)
           (process nil))
      (make-directory "sub")
      (write-region "inside ours\n" nil "sub/f" nil 'quiet)
      (write-region secret nil (expand-file-name "f" outside) nil 'quiet)
      (setq buffer (find-file-noselect "sub/f"))
      (unwind-protect
          (with-current-buffer (edn-bridge-chat-buffer)
            (edn-bridge-live-tests-wait-ready)
            (add-hook 'edn-bridge-interact-functions
                      #'edn-bridge-live-tests-deny nil t)
            (setq process
                  (make-process
                   :name "exchange" :noquery t :connection-type 'pipe
                   :command (list "python3"
                                  (expand-file-name "exchange.py"
                                                    edn-bridge-test-directory)
                                  (directory-file-name default-directory)
                                  (directory-file-name outside))
                   :filter (lambda (_process text)
                             (setq exchanges (concat exchanges text)))))
            (dotimes (round 10)
              ;; In turn with and without unsaved changes.
              (with-current-buffer buffer
                ;; What the user types locks the file, wherever that is, and
                ;; asks if another one has taken its place just then.
                (cl-letf ((create-lockfiles nil)
                          ((symbol-function
                            'userlock--ask-user-about-supersession-threat)
                           #'ignore))
                  (if (cl-evenp round)
                      (set-buffer-modified-p nil)
                    (goto-char (point-max))
                    (insert "unsaved\n"))))
              (edn-bridge-test-blind
                (edn-bridge-live-tests-say (format "Round %d" round)))
              (should-not (string-search "SECRET" (with-current-buffer buffer
                                                    (buffer-string)))))
            (process-send-eof process)
            (edn-bridge-test-wait (not (process-live-p process)))
            (edn-bridge-test-wait (string-suffix-p "\n" exchanges))
            (setq results (edn-bridge-live-tests-results))
            (should (= (length results) 200))
            ;; Nothing from outside is in a result or in the journal.
            (should-not (string-search "SECRET" (format "%S" results)))
            (should-not (edn-bridge-live-tests-holds
                         "SECRET" edn-bridge-live-tests-state))
            ;; Nothing of ours is outside.
            (should (equal (directory-files outside nil "[^.]") '("f")))
            (should-not (edn-bridge-live-tests-holds "ours" outside))
            (should (edn-bridge-live-tests-holds secret outside))
            ;; There were exchanges, and calls that succeeded.
            (should (> (string-to-number exchanges) 100))
            (dolist (tools '(("read") ("edit" "write")))
              (should (seq-find
                       (lambda (result)
                         (and (member (plist-get result :tool-name) tools)
                              (not (edn-bridge-edn-true-p
                                    (plist-get result :is-error)))))
                       results))))
        (when (process-live-p process)
          (delete-process process))
        (with-current-buffer buffer
          (set-buffer-modified-p nil)
          (kill-buffer))
        (edn-bridge-live-tests-remove outside)))))

(defun edn-bridge-live-tests-deny (title)
  "Deny what is asked in this chat, where TITLE says that there is something."
  (when title
    (edn-bridge-rpc-later
     (lambda ()
       (dolist (question edn-bridge-interact--questions)
         (edn-bridge-interact--answer question '(:outcome "deny")))))))

;;;; Other frontends

(declare-function edn-bridge-example "edn-bridge-example")

(defconst edn-bridge-live-tests-relay
  "import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
def up():
    while data := os.read(0, 65536):
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536):
    os.write(1, data)
"
  "Joins its standard input and output with the socket that is its argument.")

(ert-deftest edn-bridge-live-shows-an-injected-text-in-each-chat ()
  (skip-unless (executable-find "python3"))
  (edn-bridge-live-tests-with-program "hello.edn"
    (let* ((config (expand-file-name "config.edn" edn-bridge-live-tests-state))
           (relay (expand-file-name "relay" edn-bridge-live-tests-state))
           (run (expand-file-name "run" edn-bridge-live-tests-state))
           (shown "From ann\ninjected\n\nAssistant\nHello"))
      (with-temp-file config
        (insert "{:control {:teams [{:name \"t\" :members [\"ann\"]}]}}"))
      (setq edn-bridge-program-args
            (append (list "--config" config) edn-bridge-program-args))
      (with-current-buffer (edn-bridge-chat-buffer)
        (edn-bridge-live-tests-wait-ready)
        (let ((first (current-buffer))
              (session edn-bridge-chat--session-id)
              (sockets nil))
          (edn-bridge-test-wait
           (setq sockets (and (file-directory-p run)
                              (directory-files run t "\\.sock\\'"))
                 sockets (and (= (length sockets) 2) sockets)))
          (with-temp-file relay
            (insert "#!/usr/bin/env python3\n" edn-bridge-live-tests-relay))
          (set-file-modes relay #o700)
          ;; The second one comes over the socket, as another Emacs would.
          (let ((edn-bridge-program "sh")
                (edn-bridge-program-args
                 (list "-c" (format "exec %s %s" relay
                                    (cl-find-if-not
                                     (lambda (socket)
                                       (string-search ".control." socket))
                                     sockets)))))
            (cl-letf (((symbol-function 'edn-bridge-program-command)
                       (lambda (&rest _)
                         (cons edn-bridge-program edn-bridge-program-args))))
              (with-current-buffer (edn-bridge-chat-buffer t)
                (edn-bridge-live-tests-wait-ready)
                (edn-bridge-sessions-switch session)
                (edn-bridge-test-wait
                 (equal edn-bridge-chat--session-id session))
                (with-temp-buffer
                  (insert "injected")
                  (should
                   (equal 0 (call-process-region
                             nil nil edn-bridge-live-tests-program nil t nil
                             "--state-dir" edn-bridge-live-tests-state
                             "control" "stdin" "--team" "t" "--sender" "ann"
                             "--agent" session))))
                (dolist (chat (list first (current-buffer)))
                  (with-current-buffer chat
                    (edn-bridge-test-wait
                     (string-search shown (edn-bridge-test-transcript)))
                    (should (= 2 (length (split-string
                                          (edn-bridge-test-transcript)
                                          "injected"))))))))))))))

(ert-deftest edn-bridge-live-serves-another-frontend ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (require 'edn-bridge-example)
    (let ((buffer (save-window-excursion
                    (edn-bridge-example
                     "Hi" `(,edn-bridge-program
                            "serve" ,@edn-bridge-program-args)))))
      (unwind-protect
          (with-current-buffer buffer
            (edn-bridge-test-wait (string-match-p "hi" (buffer-string))))
        (kill-buffer buffer)))))

(ert-deftest edn-bridge-live-runs-slash-commands ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (insert "/thinking high")
    (edn-bridge-chat-settle)
    (edn-bridge-input-send)
    (edn-bridge-test-wait
     (string-match-p "Thinking level set to high"
                     (edn-bridge-test-transcript)))
    (insert "/no-such-thing")
    (edn-bridge-input-send)
    (edn-bridge-test-wait
     (equal (edn-bridge-transcript-draft) "/no-such-thing"))))

(provide 'edn-bridge-live-tests)

;;; edn-bridge-live-tests.el ends here
