;;; edn-bridge-calm-tests.el --- Tests that nothing is in the way  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defun edn-bridge-calm-tests-forms ()
  "Return pairs of a file and a form, all forms of the package."
  (mapcan
   (lambda (file)
     (with-temp-buffer
       (insert-file-contents file)
       (let ((forms nil))
         (condition-case nil
             (while t
               (push (cons (file-name-nondirectory file)
                           (read (current-buffer)))
                     forms))
           (end-of-file))
         (nreverse forms))))
   (directory-files (expand-file-name ".." edn-bridge-test-directory) t
                    "\\`edn-bridge[a-z-]*\\.el\\'")))

(defun edn-bridge-calm-tests-calls (function form)
  "Return non-nil if FORM has FUNCTION called or named."
  (cond ((eq form function) t)
        ((consp form)
         (or (edn-bridge-calm-tests-calls function (car form))
             (edn-bridge-calm-tests-calls function (cdr form))))))

(ert-deftest edn-bridge-calm-nothing-waits-but-what-says-so ()
  ;; A new name here is a place where Emacs stands still: think twice.
  (let ((found nil))
    (pcase-dolist (`(,_file . ,form) (edn-bridge-calm-tests-forms))
      (dolist (function '(sit-for sleep-for accept-process-output
                                  read-event read-char))
        (when (edn-bridge-calm-tests-calls function form)
          (push (list (nth 1 form) function) found))))
    (should (equal (sort found (lambda (a b)
                                 (string-lessp (format "%s" a)
                                               (format "%s" b))))
                   '(;; In batch mode.
                     (edn-bridge-batch--run accept-process-output)
                     ;; For a tool, while Emacs is idle, or the key that
                     ;; completes; bounded, and what is typed ends it.
                     (edn-bridge-buffers-list-files accept-process-output)
                     ;; A command that cannot go on without an answer.
                     (edn-bridge-doctor--handshake accept-process-output)
                     ;; What an ended process has left; bounded.
                     (edn-bridge-rpc--drain accept-process-output)
                     (edn-bridge-rpc-call accept-process-output))))))

(ert-deftest edn-bridge-calm-only-commands-wait-for-an-answer ()
  (pcase-dolist (`(,file . ,form) (edn-bridge-calm-tests-forms))
    (when (and (eq (car-safe form) 'defun)
               (not (eq (nth 1 form) 'edn-bridge-rpc-call))
               (edn-bridge-calm-tests-calls 'edn-bridge-rpc-call form))
      (ert-info ((format "%s: %s" file (nth 1 form)))
        (should (or (assq 'interactive form)
                    ;; Called by the `interactive' form of a command.
                    (memq (nth 1 form)
                          '(edn-bridge-agents--choose
                            edn-bridge-sessions--choose-slot
                            edn-bridge-sessions--choose-message))))))))

(ert-deftest edn-bridge-calm-no-event-takes-the-minibuffer-or-waits ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((taken nil))
      (cl-letf (((symbol-function 'read-from-minibuffer)
                 (lambda (&rest _) (push 'minibuffer taken) ""))
                ((symbol-function 'completing-read)
                 (lambda (&rest _) (push 'completing taken) ""))
                ((symbol-function 'read-string)
                 (lambda (&rest _) (push 'string taken) ""))
                ((symbol-function 'read-passwd)
                 (lambda (&rest _) (push 'password taken) ""))
                ((symbol-function 'y-or-n-p)
                 (lambda (&rest _) (push 'question taken) t))
                ((symbol-function 'edn-bridge-rpc-call)
                 (lambda (&rest _) (push 'waits taken) nil))
                ((symbol-function 'pop-to-buffer)
                 (lambda (&rest _) (push 'window taken)))
                ((symbol-function 'select-window)
                 (lambda (&rest _) (push 'window taken))))
        (dolist (topic edn-bridge-constants-topics)
          (edn-bridge-test-event
           conn topic :session-id "s1" :message "m" :level "error" :code "c"
           :interaction-id (concat "i-" topic) :kind "auth.password"
           :payload '(:prompt "Key") :correlation-id "t"
           :dialog-id (concat "d-" topic) :title "T" :type "text"
           :tool-id "c1" :tool-name "bash" :call-summary "x" :text "t"
           :messages [] :widgets [] :statuses [] :sessions [] :job nil
           :request-id "r"
           :ui/action '(:ui/action-kind :select :ui/action-name :select-model
                        :ui/prompt "Select a model" :ui/items [])))
        ;; What actions do when Emacs has nothing else to do.
        (let ((deadline (+ (float-time) 0.1)))
          (while (< (float-time) deadline)
            (accept-process-output nil 0.01))))
      (should-not taken)
      (should (string-match-p "\\[Choose\\]" (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-calm-choice-opens-only-where-awaited ()
  (edn-bridge-test-with-chat (_conn _sent)
    (cl-flet ((awaited () (let ((noninteractive nil))
                            (edn-bridge-actions--awaited-p))))
      (save-window-excursion
        ;; In another window the user is doing something else.
        (should-not (awaited))
        (set-window-buffer nil (current-buffer))
        (should (awaited))
        (cl-letf (((symbol-function 'active-minibuffer-window)
                   #'selected-window))
          (should-not (awaited)))
        (cl-letf (((symbol-function 'input-pending-p) (lambda (&rest _) t)))
          (should-not (awaited)))))))

(ert-deftest edn-bridge-calm-quitting-ends-a-call-that-waits ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let ((start (float-time)))
      (run-at-time 0.05 nil (lambda () (setq quit-flag t)))
      (should (eq 'quit
                  (condition-case nil
                      (edn-bridge-rpc-call conn "ping" nil)
                    (quit 'quit))))
      (should (< (- (float-time) start) edn-bridge-rpc-request-timeout)))))

(ert-deftest edn-bridge-calm-a-call-without-an-answer-ends-by-itself ()
  (edn-bridge-test-with-connection (conn _sent _events)
    (let* ((edn-bridge-rpc-request-timeout 0.05)
           (err (should-error (edn-bridge-rpc-call conn "ping" nil)
                              :type 'edn-bridge-rpc-error)))
      (should (string-match-p "No answer to ping" (nth 1 err))))))

(ert-deftest edn-bridge-calm-dispatching-stops-for-the-keyboard ()
  (edn-bridge-test-with-connection (conn _sent events)
    (edn-bridge-rpc--receive
     conn (mapconcat (lambda (n)
                       (format "{:kind :event :event \"a\" :seq %d :data {}}\n" n))
                     (number-sequence 1 100) ""))
    (cl-letf (((symbol-function 'input-pending-p) (lambda (&rest _) t)))
      (edn-bridge-rpc--dispatch conn)
      (should (= (length events) 1)))
    (let ((edn-bridge-rpc-dispatch-seconds 0))
      (edn-bridge-rpc--dispatch conn)
      (should (= (length events) 2)))
    ;; The rest follows by itself.
    (edn-bridge-test-wait (= (length events) 100))))

(ert-deftest edn-bridge-calm-a-crash-shows-the-last-words-and-a-button ()
  (skip-unless (executable-find "sh"))
  (let ((edn-bridge-program (make-temp-file "edn-bridge-crash" nil ".sh"
                                            "#!/bin/sh
read line
for word in one two three four five six; do echo \"word $word\" >&2; done
exit 70\n"))
        (edn-bridge-program-args nil)
        (default-directory temporary-file-directory))
    (set-file-modes edn-bridge-program #o700)
    (unwind-protect
        (with-current-buffer (edn-bridge-chat-buffer t)
          (edn-bridge-test-wait
           (not (edn-bridge-rpc-live-p edn-bridge-chat--conn)))
          (let ((text (edn-bridge-test-transcript)))
            (should (string-match-p
                     "Disconnected: the process ended with status 70\nword two\n\\(.*\n\\)*word six" text))
            (should-not (string-match-p "word one" text))
            (should (string-match-p "\\[Reconnect\\]" text)))
          (should (string-match-p "disconnected" (edn-bridge-chat--header-line)))
          (kill-buffer))
      (delete-file edn-bridge-program))))

(ert-deftest edn-bridge-calm-ignores-what-newer-versions-have ()
  (edn-bridge-test-with-chat (conn sent)
    (setf (edn-bridge-rpc-connection-state conn) 'starting)
    (edn-bridge-rpc--handshake conn "test" '("plist-frames"))
    (edn-bridge-test-feed
     conn (concat "{:kind :response :id \"1\" :op \"handshake\" :ok true :new 1 "
                  ":data {:server-info {:protocol-version \"1.99\" :features "
                  "[] :session-id \"s1\" :later [1 2]} :more {}}}\n"
                  "{:kind :event :event \"later/topic\" :seq 1 :data {:a 1}}\n"
                  "{:kind :event :event \"assistant/message\" :seq 2 :when 3 :data "
                  "{:session-id \"s1\" :role \"assistant\" :later {:a 1} :content "
                  "[{:type :hologram :data 1} {:type :text :text \"Hi\" :x 1}]}}\n"
                  "{:kind :later :id \"9\"}\n"))
    (should (edn-bridge-rpc-ready-p conn))
    (should (equal (plist-get (plist-get (car (last sent)) :params) :client-info)
                   (list :name "test" :version emacs-version
                         :protocol-version edn-bridge-constants-protocol-version
                         :features ["plist-frames"])))
    (should (equal (edn-bridge-test-transcript) "Assistant\nHi\n"))))

(provide 'edn-bridge-calm-tests)

;;; edn-bridge-calm-tests.el ends here
