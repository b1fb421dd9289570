;;; edn-bridge-fault-tests.el --- Tests behind a faulty line  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Between Emacs and the real program stands fault-proxy.py, a process that
;; delays, splits, drops, tears and kills.  Whatever it does, the chat shows
;; in the end what the journal has, and the draft is kept.
;;
;; Skipped where there is no Python or no program.

;;; Code:

(require 'json)
(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defmacro edn-bridge-fault-tests-with-chat (script faults &rest body)
  "Run BODY in a chat, with the program playing SCRIPT behind FAULTS.
FAULTS is a property list of what fault-proxy.py takes."
  (declare (indent 2) (debug t))
  `(progn
     (skip-unless (executable-find "python3"))
     (let ((process-environment
            (cons (concat "EDN_BRIDGE_FAULTS="
                          (json-encode
                           (append (list :program edn-bridge-live-tests-program)
                                   ,faults)))
                  process-environment))
           (edn-bridge-live-tests-program
            (and edn-bridge-live-tests-program
                 (expand-file-name "fault-proxy.py"
                                   edn-bridge-test-directory))))
       (edn-bridge-live-tests-with-chat ,script ,@body))))

(defmacro edn-bridge-fault-tests-whole (&rest body)
  "Run BODY where the program is reached without faults."
  (declare (indent 0) (debug t))
  `(let ((edn-bridge-program (getenv "EDN_BRIDGE_PROGRAM")))
     ,@body))

(defun edn-bridge-fault-tests-say (text)
  "Send TEXT as the draft of this chat."
  (goto-char (point-max))
  (insert text)
  (edn-bridge-input-send))

(defun edn-bridge-fault-tests-wait-hello ()
  "Wait until the chat shows a turn with the script hello.edn, and nothing else."
  (edn-bridge-test-wait
   (and (not (edn-bridge-chat-running-p))
        (equal (edn-bridge-test-transcript) edn-bridge-live-tests-hello))))

(ert-deftest edn-bridge-fault-splits-and-delays-change-nothing ()
  (dolist (seed '(1 2 3))
    (edn-bridge-fault-tests-with-chat "hello.edn"
        (list :seed seed :split [1 97] :delay_ms 2)
      (edn-bridge-live-tests-say "Hi")
      (should (equal (edn-bridge-test-transcript)
                     edn-bridge-live-tests-hello)))))

(ert-deftest edn-bridge-fault-splits-of-a-long-answer-change-nothing ()
  (edn-bridge-fault-tests-with-chat "many.edn" '(:seed 4 :split [1 3000])
    (edn-bridge-live-tests-say "Go")
    (should (equal (edn-bridge-test-transcript)
                   (concat "You\nGo\n\nAssistant\n"
                           (apply #'concat (make-list 5000 "word ")) "\n")))))

(ert-deftest edn-bridge-fault-lost-deltas-are-made-up-for ()
  (edn-bridge-fault-tests-with-chat "hello.edn"
      '(:drop "event \"assistant/delta\"" :keep 2)
    (edn-bridge-fault-tests-say "Hi")
    (edn-bridge-fault-tests-wait-hello)))

(ert-deftest edn-bridge-fault-a-lost-message-is-made-up-for ()
  (edn-bridge-fault-tests-with-chat "hello.edn"
      '(:drop "event \"assistant/(delta|message)\"")
    (edn-bridge-fault-tests-say "Hi")
    (edn-bridge-fault-tests-wait-hello)))

(ert-deftest edn-bridge-fault-torn-lines-are-made-up-for ()
  (edn-bridge-fault-tests-with-chat "hello.edn"
      '(:tear "event \"assistant/delta\".*Hello")
    (edn-bridge-fault-tests-say "Hi")
    (edn-bridge-fault-tests-wait-hello)))

(ert-deftest edn-bridge-fault-noise-is-left-alone ()
  (dolist (noise '("" "what is this" "((((" "{:kind :event}" "\"" "\\"
                   "(:kind :event :event nil :data nil)"
                   "(:kind :response :id \"99\" :ok t :data nil)"))
    (edn-bridge-fault-tests-with-chat "hello.edn" (list :noise noise)
      (ert-info (noise :prefix "noise: ")
        (edn-bridge-live-tests-say "Hi")
        (should (equal (edn-bridge-test-transcript)
                       edn-bridge-live-tests-hello))))))

(ert-deftest edn-bridge-fault-a-stall-does-not-stop-emacs ()
  (edn-bridge-fault-tests-with-chat "hello.edn"
      '(:stall ["event \"assistant/delta\"" 1])
    (let* ((ticks 0)
           (timer (run-at-time 0 0.05 (lambda () (cl-incf ticks)))))
      (unwind-protect
          (progn
            (edn-bridge-fault-tests-say "Hi")
            (insert "typed meanwhile")
            (edn-bridge-fault-tests-wait-hello)
            (should (equal (edn-bridge-transcript-draft) "typed meanwhile"))
            (should (> ticks 5)))
        (cancel-timer timer)))))

(ert-deftest edn-bridge-fault-a-dead-line-is-told-and-mended ()
  (edn-bridge-fault-tests-with-chat "hello.edn"
      '(:kill ["event \"assistant/delta\"" 2] :split [1 50])
    (edn-bridge-fault-tests-say "Hi")
    (insert "my draft")
    (edn-bridge-test-wait (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-match-p "Disconnected: the process was ended by signal 9"
                              text))
      ;; The last that the process wrote on stderr, and what to do.
      (should (string-match-p "the line went dead" text))
      (should (string-match-p "\\[Reconnect\\]" text)))
    (edn-bridge-fault-tests-whole
      (goto-char (point-min))
      (search-forward "[Reconnect")
      (push-button (1- (point)))
      (edn-bridge-live-tests-wait-ready)
      (let ((text (edn-bridge-test-transcript)))
        (should (= 2 (length (split-string text "You\nHi\n"))))
        ;; The program may have been killed, or have ended the turn itself.
        (should (string-match-p "\\[\\(Try again\\|Continue\\)\\]" text)))
      (should (equal (edn-bridge-transcript-draft) "my draft"))
      (goto-char (point-min))
      (re-search-forward "\\[\\(Try again\\|Continue\\)")
      (push-button (1- (point)))
      (edn-bridge-test-wait
       (string-match-p "Assistant\nHello, \\*\\*world\\*\\*!"
                       (edn-bridge-test-transcript)))
      (should (equal (edn-bridge-transcript-draft) "my draft")))))

(ert-deftest edn-bridge-fault-a-handshake-that-never-comes-can-be-left ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (let ((edn-bridge-program "cat")
          (edn-bridge-program-args nil))
      (cl-letf (((symbol-function 'edn-bridge-program-command)
                 (lambda (&rest _) '("cat"))))
        (with-current-buffer (edn-bridge-chat-buffer)
          (edn-bridge-test-wait
           (not (edn-bridge-rpc-connection-lines edn-bridge-chat--conn)))
          (should (string-match-p "connecting" (edn-bridge-chat--header-line)))
          ;; Emacs's own words come back to it, and are no answer.
          (should-not (edn-bridge-rpc-ready-p edn-bridge-chat--conn))))
      (with-current-buffer (car (edn-bridge-chat-buffers))
        (setq edn-bridge-program edn-bridge-live-tests-program
              edn-bridge-program-args
              (list "--state-dir" edn-bridge-live-tests-state
                    "--provider" "scripted" "--script"
                    (expand-file-name "scripts/hello.edn"
                                      edn-bridge-test-directory)))
        (edn-bridge-chat-reconnect)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-live-tests-say "Hi")
        (should (equal (edn-bridge-test-transcript)
                       edn-bridge-live-tests-hello))))))

(provide 'edn-bridge-fault-tests)

;;; edn-bridge-fault-tests.el ends here
