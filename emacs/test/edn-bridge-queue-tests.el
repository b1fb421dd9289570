;;; edn-bridge-queue-tests.el --- Tests of the queue, retry and undo  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-queue-tests-message (entry text &rest more)
  "Return a message ENTRY with TEXT that waits, and MORE."
  (append more
          (list :entry-id entry :text text :images 0 :until "turn-end"
                :from '(:kind "client" :connection 1 :client "emacs"))))

(defun edn-bridge-queue-tests-tell (conn held &rest messages)
  "Tell CONN that MESSAGES wait, and whether they are HELD."
  (edn-bridge-test-event conn "queue/updated" :session-id "s1"
                         :held (if held t :false)
                         :waiting (vconcat messages)))

(defun edn-bridge-queue-tests-go-to (text)
  "Go to the line of the queued message TEXT."
  (goto-char (edn-bridge-transcript-end))
  (search-forward text)
  (beginning-of-line))

(defun edn-bridge-queue-tests-key (key)
  "Return what KEY does at point."
  (key-binding (kbd key)))

(ert-deftest edn-bridge-queue-strip-shows-what-waits-in-order ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "one\nmore" :until "next-call")
     (edn-bridge-queue-tests-message "e2" "two" :images 2
                                     :from '(:kind "client" :client "repl"))
     (edn-bridge-queue-tests-message "e3" "a\u202Eb" :fixed t
                                     :from '(:kind "control")
                                     :sender "cron"))
    (let ((above (edn-bridge-transcript-footer)))
      (should (string-search
               (concat "For the running turn: one more\n"
                       "From repl, for after the turn: two  [2 images]\n"
                       "From cron, for after the turn: a\\u{202E}b\n")
               above))
      (should-not (string-search "Held back" above))
      ;; The count of another client's messages is told no more.
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming t :pending-message-count 3)
      (should (equal above (edn-bridge-transcript-footer))))
    (edn-bridge-queue-tests-tell conn nil)
    (should-not (string-search "For " (edn-bridge-transcript-footer)))
    (should-error (edn-bridge-queue-go-to) :type 'user-error)))

(ert-deftest edn-bridge-queue-other-sessions-are-not-shown ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "queue/updated" :session-id "s2" :held t
                           :waiting (vector (edn-bridge-queue-tests-message
                                             "e1" "elsewhere")))
    (should-not (string-search "elsewhere" (edn-bridge-transcript-footer)))))

(ert-deftest edn-bridge-queue-own-message-stands-once ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-queue-tests-tell conn nil)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t :pending-message-count 0)
    (edn-bridge-transcript-set-draft "later")
    (edn-bridge-input-queue)
    (cl-flet ((count () (with-temp-buffer
                          (insert (with-current-buffer buffer
                                    (edn-bridge-transcript-footer)))
                          (how-many "later" (point-min)))))
      ;; It is seen at once, and told before its request is answered.
      (should (= (count) 1))
      (edn-bridge-queue-tests-tell
       conn nil (edn-bridge-queue-tests-message "e1" "later"))
      (should (= (count) 1))
      (edn-bridge-test-answer conn sent "follow_up" :accepted t)
      (should (= (count) 1))
      (edn-bridge-queue-tests-tell conn nil)
      (should (= (count) 0)))))

(ert-deftest edn-bridge-queue-keys-edit-move-and-take-back ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "one")
     (edn-bridge-queue-tests-message "e2" "two")
     (edn-bridge-queue-tests-message "e3" "three"))
    (edn-bridge-queue-go-to)
    (should (looking-at-p "For after the turn: one"))
    (edn-bridge-queue-go-to)
    (should (looking-at-p "For after the turn: two"))
    (should (eq (edn-bridge-queue-tests-key "M-<up>")
                #'edn-bridge-queue-move-up))
    (should (eq (edn-bridge-queue-tests-key "M-<down>")
                #'edn-bridge-queue-move-down))
    (should (eq (edn-bridge-queue-tests-key "k") #'edn-bridge-queue-take-back))
    (should (eq (edn-bridge-queue-tests-key "d") #'edn-bridge-queue-take-back))
    (should (eq (edn-bridge-queue-tests-key "n") #'edn-bridge-queue-next))
    (should (eq (edn-bridge-queue-tests-key "p") #'edn-bridge-queue-previous))
    (should (eq (edn-bridge-queue-tests-key "RET") #'edn-bridge-queue-edit))
    (should (eq (edn-bridge-queue-tests-key "e") #'edn-bridge-queue-edit))
    (edn-bridge-queue-move-up)
    (should (equal (plist-get (car sent) :op) "move_pending"))
    (should (equal (plist-get (car sent) :params)
                   '(:entry-id "e2" :before "e1")))
    (edn-bridge-queue-move-down)
    (should (equal (plist-get (car sent) :params) '(:entry-id "e2")))
    ;; Point stays at its message.
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "one")
     (edn-bridge-queue-tests-message "e3" "three")
     (edn-bridge-queue-tests-message "e2" "two"))
    (should (looking-at-p "For after the turn: two"))
    (should-error (edn-bridge-queue-move-down) :type 'user-error)
    (edn-bridge-transcript-set-draft "a draft")
    (edn-bridge-queue-tests-go-to "one")
    (edn-bridge-queue-take-back)
    (should (equal (plist-get (car sent) :params) '(:entry-id "e1")))
    (edn-bridge-test-answer conn sent "remove_pending"
                            :accepted t :text "one, whole" :images 0)
    (should (equal (edn-bridge-transcript-draft) "one, whole\n\na draft"))))

(ert-deftest edn-bridge-queue-keys-stay-in-the-strip ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "one")
     (edn-bridge-queue-tests-message "e2" "two")
     (edn-bridge-queue-tests-message "e3" "three"))
    (edn-bridge-queue-go-to)
    (should-error (edn-bridge-queue-previous 1) :type 'user-error)
    (edn-bridge-queue-next 2)
    (should (looking-at-p "For after the turn: three"))
    (should-error (edn-bridge-queue-next 1) :type 'user-error)
    (should (looking-at-p "For after the turn: three"))
    (edn-bridge-queue-previous 1)
    ;; The one at point was taken back or delivered.
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "one")
     (edn-bridge-queue-tests-message "e3" "three"))
    (should (looking-at-p "For after the turn: three"))
    (edn-bridge-queue-tests-tell
     conn nil (edn-bridge-queue-tests-message "e1" "one"))
    (should (looking-at-p "For after the turn: one"))
    (edn-bridge-queue-tests-tell conn nil)
    (should (= (point) (point-max)))))

(ert-deftest edn-bridge-queue-edit-begins-at-the-end-of-the-text ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-queue-tests-tell
     conn nil (edn-bridge-queue-tests-message "e1" "one\nmore"))
    (edn-bridge-queue-go-to)
    (save-window-excursion
      (edn-bridge-queue-edit)
      (should (equal (buffer-string) "one\nmore"))
      (should (eobp))
      (edn-bridge-queue-edit-abandon))))

(ert-deftest edn-bridge-queue-message-is-edited-in-a-buffer ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-queue-tests-tell
     conn nil
     (edn-bridge-queue-tests-message "e1" "cut" :cut t)
     (edn-bridge-queue-tests-message "e2" "from elsewhere" :fixed t))
    (let ((chat (current-buffer)))
      (edn-bridge-queue-tests-go-to "elsewhere")
      (should-error (edn-bridge-queue-edit) :type 'user-error)
      (edn-bridge-queue-tests-go-to "cut")
      (save-window-excursion
        (edn-bridge-queue-edit)
        (should (equal (plist-get (car sent) :op) "list_pending"))
        (edn-bridge-test-answer
         conn sent "list_pending"
         :waiting (vector (edn-bridge-queue-tests-message "e1" "cut no more")))
        (set-buffer (window-buffer))
        (let ((edited (current-buffer)))
          (should (equal (buffer-string) "cut no more"))
          (should (eq (key-binding (kbd "C-c C-c"))
                      #'edn-bridge-queue-edit-finish))
          (goto-char (point-max))
          (insert "!")
          (edn-bridge-queue-edit-finish)
          (should (equal (plist-get (car sent) :params)
                         '(:entry-id "e1" :message "cut no more!")))
          ;; Where it was delivered meanwhile, the text is not lost.
          (edn-bridge-rpc--dispatch-frame
           conn (list :kind :error :id (plist-get (car sent) :id)
                      :op "edit_pending" :error-code "request/not-found"
                      :error-message "No"))
          (should (buffer-live-p edited))
          (with-current-buffer edited
            (edn-bridge-queue-edit-finish))
          (with-current-buffer chat
            (edn-bridge-test-answer conn sent "edit_pending" :accepted t))
          (should-not (buffer-live-p edited)))))))

(ert-deftest edn-bridge-queue-held-back-is-said-and-released ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-queue-tests-tell
     conn t (edn-bridge-queue-tests-message "e1" "one"))
    (should (string-search "Held back since the abort; C-c C-c resumes it."
                           (edn-bridge-transcript-footer)))
    (call-interactively (key-binding (kbd "C-c C-c")))
    (should (equal (plist-get (car sent) :op) "resume_queue"))
    (edn-bridge-queue-tests-tell conn nil)
    (should-not (string-search "Held" (edn-bridge-transcript-footer)))))

;;;; Retry

(ert-deftest edn-bridge-retry-takes-the-failed-answer-out ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-flet ((fail (entry)
                (edn-bridge-test-event conn "assistant/thinking-delta"
                                       :session-id "s1" :text "Hm.")
                (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                                       :text "Half")
                (edn-bridge-test-event
                 conn "assistant/message" :session-id "s1" :role "assistant"
                 :entry-id entry :stop-reason "error" :error-message "It broke"
                 :content [(:type :thinking :text "Hm.")
                           (:type :text :text "Half")])
                (edn-bridge-test-event conn "session/updated" :session-id "s1"
                                       :is-streaming :false :can-retry t)))
      (edn-bridge-transcript-set-draft "Hi")
      (edn-bridge-input-send)
      (fail "e2")
      (should (string-search "There is no answer to your message. [Try again]"
                             (edn-bridge-test-transcript)))
      (should (string-search "asks the model again"
                             (edn-bridge-transcript-footer)))
      (edn-bridge-test-push "Try again")
      (should (equal (plist-get (car sent) :op) "retry"))
      (edn-bridge-test-event conn "messages/replaced" :session-id "s1"
                             :entry-ids ["e2"] :reason "retry")
      (should (equal (edn-bridge-test-transcript) "You\nHi\n"))
      ;; Again, with something below it that stays.
      (fail "e3")
      (edn-bridge-chat-notice "A note.")
      (edn-bridge-test-event conn "messages/replaced" :session-id "s1"
                             :entry-ids ["e3"] :reason "retry")
      (should (equal (edn-bridge-test-transcript) "You\nHi\n\nA note.\n"))
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming t)
      (should-not (string-search "asks the model"
                                 (edn-bridge-transcript-footer))))))

(ert-deftest edn-bridge-retry-looks-the-same-live-and-rebuilt ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user" :content "Hi")
                (:id "e2" :role "assistant" :stop-reason "aborted"
                     :content [(:type :thinking :text "Hm.")
                               (:type :text :text "Half")])])
    (edn-bridge-test-event conn "messages/replaced" :session-id "s1"
                           :entry-ids ["e2"] :reason "retry")
    (should (equal (edn-bridge-test-transcript) "You\nHi\n"))))

;;;; An answer that breaks

(ert-deftest edn-bridge-broken-answer-is-deleted ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((event (topic &rest data)
                (apply #'edn-bridge-test-event conn topic :session-id "s1" data)))
      (edn-bridge-transcript-set-draft "Hi")
      (edn-bridge-input-send)
      ;; A round before, which stays.
      (event "assistant/delta" :text "I look.")
      (event "tool/start" :tool-id "t1" :tool-name "bash" :call-summary "$ ls")
      (event "assistant/message" :role "assistant" :entry-id "e1"
             :stop-reason "tool-use"
             :content [(:type :text :text "I look.")
                       (:type :tool-call :id "t1" :name "bash"
                              :arguments (:command "ls"))])
      (event "tool/result" :tool-id "t1" :tool-name "bash" :call-summary "$ ls"
             :result-text "a" :is-error :false)
      (edn-bridge-chat-settle)
      (let ((before (edn-bridge-test-transcript)))
        (event "assistant/thinking-delta" :text "Hm.")
        (event "assistant/delta" :text "Half of it.\nAnd")
        (event "tool/start" :tool-id "t2" :tool-name "read"
               :call-summary "read a")
        (event "assistant/delta" :text "more")
        (edn-bridge-chat-settle)
        (should (string-search "Half of it." (edn-bridge-test-transcript)))
        (event "turn/retry" :attempt 1 :kind "dropped" :pause-ms 1000)
        (should (string-search "Half of it." (edn-bridge-test-transcript)))
        (event "turn/retry" :attempt 2 :kind "dropped" :pause-ms 1000
               :discarded t)
        (should (equal (edn-bridge-test-transcript) before))
        (should-not (edn-bridge-tools-unfinished-p))
        (event "assistant/delta" :text "Whole.")
        (event "assistant/message" :role "assistant" :entry-id "e2"
               :stop-reason "end-turn" :text "Whole."
               :content [(:type :text :text "Whole.")])
        (should (string-suffix-p "Whole.\n" (edn-bridge-test-transcript)))
        (should-not (string-search "Half" (edn-bridge-test-transcript)))))))

;;;; Undo

(ert-deftest edn-bridge-undo-tells-what-the-bridge-did ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-transcript-set-draft "/undo")
    (edn-bridge-input-send)
    (should (equal (plist-get (car sent) :op) "undo"))
    (should (equal (plist-get (car sent) :params) '(:steps 1)))
    (edn-bridge-test-answer conn sent "undo" :steps 1 :files []
                            :message "Undone: a.rs. A command ran, too.")
    (should (string-search "A command ran, too." (edn-bridge-test-transcript)))
    (edn-bridge-redo 2)
    (should (equal (plist-get (car sent) :op) "redo"))
    (should (equal (plist-get (car sent) :params) '(:steps 2)))))

(ert-deftest edn-bridge-undo-leaves-others-changes-alone ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-undo)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id) :op "undo"
                :error-code "request/file-changed"
                :error-message "Somebody else has changed files since."
                :data '(:changed ["a.rs"])))
    (should (string-search "since.\na.rs [Undo the others]"
                           (edn-bridge-test-transcript)))
    (edn-bridge-test-push "Undo the others")
    (should (equal (plist-get (car sent) :params)
                   '(:steps 1 :skip-changed t)))))

(ert-deftest edn-bridge-undo-offers-others-only-where-there-are ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-undo)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id) :op "undo"
                :error-code "request/file-changed"
                :error-message "Somebody else has changed a.rs since."
                :data '(:changed ["a.rs"] :others 0)))
    (should (string-search "a.rs since." (edn-bridge-test-transcript)))
    (should-not (string-search "others]" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-retry-by-key-drops-the-button ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-input--offer-again "There is no answer." "Hi")
    (edn-bridge-input-retry)
    (should (string-search "[Try again]" (edn-bridge-test-transcript)))
    (edn-bridge-test-answer conn sent "retry" :accepted t)
    (should (equal (edn-bridge-test-transcript) "There is no answer.\n"))))

(ert-deftest edn-bridge-retry-button-goes-when-a-turn-begins ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t)
    (edn-bridge-input--offer-again "There is no answer." "Hi")
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming :false :can-retry t)
    (should (equal (edn-bridge-test-transcript)
                   "There is no answer. [Try again]\n"))
    ;; By the command, or from elsewhere.
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t)
    (should (equal (edn-bridge-test-transcript) "There is no answer.\n"))))

(ert-deftest edn-bridge-abort-ends-a-login ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-ask conn "ask" '(:prompt "Else?"))
    (edn-bridge-test-event conn "interaction/requested"
                           :interaction-id "i2" :kind "auth.password"
                           :correlation-id "login-1" :session-id "s1"
                           :payload '(:prompt "Key"))
    (edn-bridge-input-abort)
    (let ((answers (seq-filter (lambda (frame)
                                 (equal (plist-get frame :op)
                                        "interaction_respond"))
                               sent)))
      (should (= (length answers) 1))
      (should (equal (plist-get (car answers) :params)
                     '(:interaction-id "i2" :status "cancelled"))))
    (should (cl-find "abort" sent :test #'equal
                     :key (lambda (frame) (plist-get frame :op))))))

(ert-deftest edn-bridge-sessions-empty-ones-are-not-offered ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let (offered)
      (cl-letf (((symbol-function 'edn-bridge-rpc-call)
                 (lambda (&rest _)
                   '(:sessions [(:id "s1" :message-count 0)
                                (:id "s2" :message-count 0)
                                (:id "s3" :message-count 2)
                                (:id "s4" :message-count 0 :name "Named")
                                (:id "s5")])))
                ((symbol-function 'edn-bridge-complete-choose)
                 (lambda (_prompt _category items &rest _)
                   (setq offered items)
                   (car items))))
        (edn-bridge-sessions--choose nil))
      (should (equal (mapcar (lambda (slot) (plist-get slot :id)) offered)
                     '("s1" "s3" "s4" "s5"))))))

(ert-deftest edn-bridge-draft-survives-the-end-of-emacs ()
  (let* ((folder (make-temp-file "edn-drafts" t))
         (edn-bridge-drafts-file (expand-file-name "drafts.eld" folder)))
    (unwind-protect
        (progn
          (edn-bridge-test-with-chat (_conn _sent)
            (edn-bridge-transcript-set-draft "half a\n\"thought\" ü")
            (edn-bridge-drafts--on-exit))
          (should (= (file-modes edn-bridge-drafts-file) #o600))
          (edn-bridge-test-with-chat (_conn _sent)
            (setq edn-bridge-chat--session-id "s2")
            (run-hooks 'edn-bridge-chat-ready-hook)
            (should (equal (edn-bridge-transcript-draft) ""))
            (setq edn-bridge-chat--session-id "s1")
            (edn-bridge-transcript-set-draft "another")
            (run-hooks 'edn-bridge-chat-ready-hook)
            (should (equal (edn-bridge-transcript-draft) "another"))
            (edn-bridge-transcript-set-draft "")
            (run-hooks 'edn-bridge-chat-ready-hook)
            (should (equal (edn-bridge-transcript-draft)
                           "half a\n\"thought\" ü"))
            ;; It is given back once.
            (should-not (file-exists-p edn-bridge-drafts-file)))
          (write-region "(((" nil edn-bridge-drafts-file nil 'quiet)
          (should-not (edn-bridge-drafts--read)))
      (delete-directory folder t))))

(ert-deftest edn-bridge-undo-elsewhere-is-told-and-reads-no-file ()
  (let* ((folder (file-name-as-directory (make-temp-file "edn-undo" t)))
         (file (expand-file-name "a.txt" folder)))
    (unwind-protect
        (edn-bridge-test-with-chat (conn _sent)
          (setq default-directory folder)
          (write-region "new\n" nil file nil 'quiet)
          (let ((visiting (find-file-noselect file)))
            (unwind-protect
                (progn
                  (write-region "old, longer\n" nil file nil 'quiet)
                  (set-file-times file (time-add nil 5))
                  (edn-bridge-test-event
                   conn "files/undone" :session-id "s1" :undone t
                   :files (vector (list :path file :action "restored")))
                  (should (string-search "Undone elsewhere"
                                         (edn-bridge-test-transcript)))
                  ;; The bridge sends what is in the file now.
                  (should (equal (with-current-buffer visiting
                                   (buffer-string))
                                 "new\n")))
              (kill-buffer visiting))))
      (delete-directory folder t))))

(ert-deftest edn-bridge-undo-names-buffers-that-keep-changes ()
  (let* ((folder (file-name-as-directory (make-temp-file "edn-undo" t)))
         (file (expand-file-name "a.txt" folder)))
    (unwind-protect
        (edn-bridge-test-with-chat (conn _sent)
          (setq default-directory folder)
          (write-region "old\n" nil file nil 'quiet)
          (let ((visiting (find-file-noselect file)))
            (unwind-protect
                (cl-flet ((undone ()
                            ;; On disk it was never changed.
                            (edn-bridge-test-event
                             conn "files/undone" :session-id "s1" :undone t
                             :files (vector (list :path file
                                                  :action "skipped")))))
                  (undone)
                  (should (equal (edn-bridge-test-transcript) ""))
                  ;; The edit of the agent, which could not be saved.
                  (with-current-buffer visiting
                    (insert "new "))
                  (undone)
                  (should (string-search "unsaved changes, which stay: "
                                         (edn-bridge-test-transcript)))
                  (should (equal (with-current-buffer visiting
                                   (buffer-string))
                                 "new old\n")))
              (with-current-buffer visiting
                (set-buffer-modified-p nil)
                (kill-buffer)))))
      (delete-directory folder t))))

(provide 'edn-bridge-queue-tests)

;;; edn-bridge-queue-tests.el ends here
