;;; edn-bridge-sessions-tests.el --- Tests of continuing sessions  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defconst edn-bridge-sessions-tests-slots
  [(:id "s1" :display-name "This" :message-count 0 :created-at "2026-11-23T09:00:00Z")
   (:id "s2" :display-name "Older" :message-count 3 :created-at "2026-11-23T07:00:00Z")
   (:id "s3" :display-name "Used last" :message-count 2
        :created-at "2026-11-23T06:00:00Z" :modified "2026-11-23T08:00:00Z")
   (:id "s4" :display-name "Empty" :message-count 0 :created-at "2026-11-23T08:30:00Z")]
  "Sessions as the bridge lists them.")

(defun edn-bridge-sessions-tests-open (conn sent fresh)
  "Have a chat of CONN, which is FRESH, ready; SENT returns what was sent.
Return what stands above the draft of the last session."
  (setq edn-bridge-sessions-fresh fresh)
  (edn-bridge-test-event conn "session/rehydrated" :session-id "s1" :messages [])
  (when (cl-find "list_sessions" (funcall sent)
                 :key (lambda (frame) (plist-get frame :op)) :test #'equal)
    (edn-bridge-test-answer conn (funcall sent) "list_sessions"
                            :sessions edn-bridge-sessions-tests-slots))
  (car (alist-get 'edn-bridge-sessions edn-bridge-chat--statuses)))

(ert-deftest edn-bridge-sessions-last-one-is-offered ()
  (edn-bridge-test-with-chat (conn sent)
    (should (string-search
             "continues Used last"
             (edn-bridge-sessions-tests-open conn (lambda () sent) t)))
    (edn-bridge-sessions-continue)
    (should (equal (plist-get (car sent) :params) '(:session-id "s3"))))
  ;; What is said goes to the new session, and nothing is offered any more.
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-sessions-tests-open conn (lambda () sent) t)
    (insert "Hi")
    (edn-bridge-input-send)
    (should-not (alist-get 'edn-bridge-sessions edn-bridge-chat--statuses))
    (should-error (edn-bridge-sessions-continue) :type 'user-error)))

(ert-deftest edn-bridge-sessions-last-one-is-opened-on-demand ()
  (let ((edn-bridge-sessions-resume t))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-sessions-tests-open conn (lambda () sent) t)
      (should (equal (plist-get (car sent) :op) "switch_session")))
    ;; A new one was asked for.
    (edn-bridge-test-with-chat (conn sent)
      (should (edn-bridge-sessions-tests-open conn (lambda () sent) 'new))
      (should-not (equal (plist-get (car sent) :op) "switch_session"))))
  (let ((edn-bridge-sessions-resume nil))
    (edn-bridge-test-with-chat (conn sent)
      (should-not (edn-bridge-sessions-tests-open conn (lambda () sent) t)))))

(ert-deftest edn-bridge-sessions-live-last-one-is-gone-on-with ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-live-tests-say "Say hello.")
      (let ((conn edn-bridge-chat--conn)
            (ended nil))
        (edn-bridge-rpc-close conn)
        (edn-bridge-rpc-when-ended conn (lambda () (setq ended t)))
        (edn-bridge-test-wait ended))
      (kill-buffer))
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-test-wait edn-bridge-sessions--last)
      (edn-bridge-sessions-continue)
      (edn-bridge-test-wait (string-search "Say hello."
                                           (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-sessions-live-one-of-another-program-can-be-read ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Say hello.")
    (let ((id edn-bridge-chat--session-id))
      (with-current-buffer (edn-bridge-chat-buffer 'new)
        (edn-bridge-live-tests-wait-ready)
        (edn-bridge-sessions--turn-to edn-bridge-chat--conn "switch_session"
                                      (list :session-id id))
        (edn-bridge-test-wait
         (string-search "open in another program (process "
                        (edn-bridge-test-transcript)))
        (save-window-excursion
          (edn-bridge-test-push "Read it"))
        (with-current-buffer "*edn-bridge session*"
          (unwind-protect
              (edn-bridge-test-wait (string-search "Say hello."
                                                   (buffer-string)))
            (kill-buffer)))))))

(ert-deftest edn-bridge-sessions-message-is-found-where-point-is ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "1" :role "user" :content "one\nmore")
                (:id "2" :role "assistant" :content "You\nnone")
                (:id "3" :role "user" :content "two")
                (:id "4" :role "assistant" :content "b")
                (:id "5" :role "user" :content "one")])
    (should (equal (edn-bridge-sessions--own-message) '("5" . "one")))
    (goto-char (point-min))
    (search-forward "none")
    (should (equal (edn-bridge-sessions--own-message) '("1" . "one\nmore")))
    (search-forward "two")
    (should (equal (edn-bridge-sessions--own-message) '("3" . "two")))))

(ert-deftest edn-bridge-sessions-live-message-is-edited-and-sent-again ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "One.")
    (edn-bridge-live-tests-say "Tow.")
    (let ((id edn-bridge-chat--session-id))
      (insert "x")
      (should-error (edn-bridge-sessions-edit) :type 'user-error)
      (edn-bridge-transcript-set-draft "")
      (edn-bridge-sessions-edit)
      (edn-bridge-test-wait (equal (edn-bridge-transcript-draft) "Tow."))
      (edn-bridge-test-wait (not (string-search "Tow."
                                                (edn-bridge-test-transcript))))
      (should (string-search "One." (edn-bridge-test-transcript)))
      (should-not (equal id edn-bridge-chat--session-id))
      (edn-bridge-transcript-set-draft "")
      (edn-bridge-live-tests-say "Three.")
      (goto-char (point-min))
      (search-forward "One.")
      (call-interactively #'edn-bridge-sessions-fork)
      (edn-bridge-test-wait (not (string-search "Three."
                                                (edn-bridge-test-transcript))))
      (should (string-search "One." (edn-bridge-test-transcript)))
      ;; The first one has nothing before it.
      (edn-bridge-transcript-set-draft "")
      (goto-char (point-min))
      (edn-bridge-sessions-edit)
      (edn-bridge-test-wait (equal (edn-bridge-transcript-draft) "One."))
      (edn-bridge-test-wait (equal (edn-bridge-test-transcript) "")))))

(ert-deftest edn-bridge-sessions-fork-begins-in-the-draft ()
  (let ((messages [(:id "e1" :role "user" :content "Hi")
                   (:id "e2" :role "assistant" :content "Hello")])
        (inhibit-message t))
    (edn-bridge-test-with-chat (conn sent)
      (save-window-excursion
        (switch-to-buffer (current-buffer))
        (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                               :messages messages)
        (goto-char (point-min))
        (edn-bridge-sessions-fork "e1")
        (edn-bridge-test-answer conn sent "fork" :session-id "s2")
        (edn-bridge-test-event conn "session/rehydrated" :session-id "s2"
                               :messages messages)
        (should (string-search "Hi" (edn-bridge-test-transcript)))
        (should (edn-bridge-transcript-in-draft-p))
        (should (= (window-point) (point-max)))
        ;; A draft that is being written stays, and point in it.
        (insert "abc")
        (backward-char)
        (edn-bridge-sessions-fork "e1")
        (edn-bridge-test-answer conn sent "fork" :session-id "s3")
        (should (equal (buffer-substring (point) (point-max)) "c"))))))

(ert-deftest edn-bridge-sessions-forks-are-told-from-their-source ()
  (let ((slots '((:id "a" :display-name "A")
                 (:id "b" :display-name "A" :parent-session-id "a")
                 (:id "c" :display-name "Task" :parent-session-id "a"))))
    (should (equal (mapcar (lambda (slot)
                             (edn-bridge-sessions--annotate slot slots))
                           slots)
                   (list "" (concat (make-string 26 ?\s) "fork of A") "")))
    (with-temp-buffer
      (edn-bridge-tree-mode)
      (edn-bridge-tree--show slots "a")
      (should (string-match-p "● A  \n.*○ A  fork  \n.*○ Task  \n"
                              (buffer-string))))))

(ert-deftest edn-bridge-sessions-picker-has-columns ()
  (let* ((now (float-time))
         (slot (lambda (name ago count)
                 (list :id name :display-name name :message-count count
                       :modified (format-time-string
                                  "%FT%T.000Z" (- now ago) t))))
         (slots (list (funcall slot "A" 10 1)
                      (funcall slot "A longer name" 7300 12)
                      (funcall slot "B" 100000 3)))
         (lines nil))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt table &rest _)
                 (let ((note (alist-get 'annotation-function
                                        (cdr (funcall table "" nil 'metadata)))))
                   (setq lines (mapcar (lambda (name)
                                         (concat name (funcall note name)))
                                       (all-completions "" table))))
                 "A")))
      (edn-bridge-complete-choose
       "Session: " nil slots #'edn-bridge-sessions-label
       (lambda (slot) (edn-bridge-sessions--annotate slot slots))))
    (should (equal (mapcar #'substring-no-properties lines)
                   '("A              now         1 message"
                     "A longer name  2 h ago     12 messages"
                     "B              yesterday   3 messages")))))

(ert-deftest edn-bridge-models-picker-has-window-price-and-current ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :model-id "large" :model-provider "p")
    (should (equal (edn-bridge-models--annotate
                    '(:provider "p" :id "large" :name "Large" :usable t
                      :context-window 1000000 :price (:input 3.0 :output 15)))
                   "1M     $3 / $15         current, Large"))
    (should (equal (edn-bridge-models--annotate
                    '(:provider "q" :id "large" :context-window 200000
                      :usable :false))
                   "200k                    not set up"))))

(ert-deftest edn-bridge-sessions-header-line-says-on-which-host-one-is ()
  (edn-bridge-test-with-chat (conn _sent)
    (pcase-dolist (`(,shown ,face . ,data)
                   '((nil nil :elsewhere :false :host "desk")
                     ("on desk%" nil :elsewhere t :host "desk%")
                     ("desk% is lost" edn-bridge-header-error
                      :elsewhere t :owner-lost t :host "desk%")
                     ("no host" edn-bridge-header-error
                      :elsewhere t :owner-lost t :host nil)))
      (apply #'edn-bridge-test-event conn "session/updated"
             :session-id "s1" data)
      (let ((line (edn-bridge-chat--header-line)))
        (if (not shown)
            (should-not (string-search "desk" line))
          (let ((at (string-search (string-replace "%" "%%" shown) line)))
            (should at)
            (should (eq (get-text-property at 'face line) face))))))))

(ert-deftest edn-bridge-tree-begins-at-the-current-session ()
  (with-temp-buffer
    (edn-bridge-tree-mode)
    (let ((slots '((:id "a" :display-name "A") (:id "b" :display-name "B")
                   (:id "c" :display-name "C"))))
      (edn-bridge-tree--show slots "b")
      (should (looking-at-p "● B"))
      ;; Then point stays where the user puts it.
      (goto-char (point-min))
      (edn-bridge-tree--show slots "b")
      (should (bobp)))))

(provide 'edn-bridge-sessions-tests)

;;; edn-bridge-sessions-tests.el ends here
